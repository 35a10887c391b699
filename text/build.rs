//! Names the library as its users will find it: libprefix_text.so.1, by ABI major.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libprefix_text.so.1");
    // The thread of tasks ends by itself, a moment after the last of them: dlclose must not take its
    // code away under it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // The C functions of a crate below it, llguidance, are not ours to hand on.
    println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
