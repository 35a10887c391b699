//! The constants, structs and functions of the committed bindings are those of the headers, as a C compiler
//! sees them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

struct Header {
    name: &'static str,
    bindings: &'static str,
    list: &'static str,
    functions: &'static [&'static str],
}

fn headers() -> Vec<Header> {
    vec![
        Header {
            name: "prefix.h",
            bindings: include_str!("../src/prefix_h.rs"),
            list: "PREFIX_FUNCTIONS",
            functions: prefix_sys::FUNCTIONS,
        },
        #[cfg(feature = "text")]
        Header {
            name: "prefix_text.h",
            bindings: include_str!("../src/prefix_text_h.rs"),
            list: "PREFIX_TEXT_FUNCTIONS",
            functions: prefix_sys::TEXT_FUNCTIONS,
        },
    ]
}

fn include() -> PathBuf {
    Path::new(CRATE).join("../../../include")
}

/// Compiles a C program and returns the lines that it prints.
fn run_c(name: &str, source: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&file, source).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut compile = Command::new(&compiler);
    compile
        .arg("-I")
        .arg(include())
        .arg("-o")
        .arg(&program)
        .arg(&file);
    let done = compile
        .output()
        .unwrap_or_else(|why| panic!("{compiler}: {why}"));
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let output = Command::new(&program).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(String::from)
        .collect()
}

fn program(header: &str, body: &str) -> String {
    format!(
        "#include <{header}>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {{\n{body}return 0;\n}}\n"
    )
}

/// `pub const NAME: i32 = VALUE;` of the generated file.
fn constants(bindings: &str) -> Vec<(&str, &str)> {
    let lines = bindings
        .lines()
        .filter_map(|line| line.strip_prefix("pub const PREFIX_"));
    lines
        .map(|rest| {
            let (name, value) = rest.split_once(": i32 = ").expect("all constants are i32");
            (name, value.trim_end_matches(';'))
        })
        .collect()
}

#[test]
fn constants_have_the_values_of_the_header() {
    for header in headers() {
        let constants = constants(header.bindings);
        assert!(!constants.is_empty());
        let print = |(name, _): &(&str, &str)| {
            format!("printf(\"{name} %lld\\n\", (long long)PREFIX_{name});\n")
        };
        let body: String = constants.iter().map(print).collect();
        let ours: Vec<_> = constants
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let name = header.name.replace('.', "_");
        assert_eq!(
            run_c(&format!("constants_{name}"), &program(header.name, &body)),
            ours
        );
    }
}

#[test]
fn no_constant_of_the_header_is_missing() {
    for header in headers() {
        let known: BTreeSet<_> = constants(header.bindings)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let text = std::fs::read_to_string(include().join(header.name)).unwrap();
        for line in text.lines() {
            // Enumerators ("  PREFIX_OK = 0,", "enum { PREFIX_A = 0, PREFIX_B = 1 };") and numeric macros.
            let mut names: Vec<&str> = Vec::new();
            if let Some(rest) = line.strip_prefix("#define PREFIX_") {
                if let [name, value] = rest.split_whitespace().collect::<Vec<_>>()[..] {
                    if value.parse::<i64>().is_ok() {
                        names.push(name);
                    }
                }
            } else if !line.trim_start().starts_with(['*', '/']) {
                for part in line.split("PREFIX_").skip(1) {
                    if let Some((name, _)) = part.split_once(" = ") {
                        names.push(name);
                    }
                }
            }
            for name in names {
                assert!(
                    known.contains(name),
                    "{}: PREFIX_{name} is not bound: {line}",
                    header.name
                );
            }
        }
    }
}

#[test]
fn lengths_up_to_the_zero() {
    let body = "printf(\"%zu\\n\", PREFIX_NUL);\n";
    assert_eq!(
        run_c("nul", &program("prefix.h", body)),
        [prefix_sys::PREFIX_NUL.to_string()]
    );
}

#[test]
fn functions_are_those_of_the_list() {
    for header in headers() {
        let body = format!("#define PRINT(name) puts(#name);\n{}(PRINT)\n", header.list);
        let name = format!("functions_{}", header.name.replace('.', "_"));
        assert_eq!(run_c(&name, &program(header.name, &body)), header.functions);
    }
}

/// The bindings assert the layout that bindgen saw; this asks the compiler of this machine.
#[test]
fn structs_have_the_size_of_the_header() {
    macro_rules! sizes {
        ($($name:ident),* $(,)?) => {
            [$((stringify!($name), size_of::<prefix_sys::$name>())),*]
        };
    }
    let sizes = sizes!(
        prefix_error,
        prefix_option_details,
        prefix_device_details,
        prefix_memory,
        prefix_engine_info,
        prefix_engine_stats,
        prefix_constraint_calls,
        prefix_event,
        prefix_result_info,
        prefix_job_totals,
        prefix_cache_info,
        prefix_cache_usage,
        prefix_order_info,
        prefix_partition_info,
        prefix_estimate_info,
        prefix_cache_event,
        prefix_snapshot_info,
    );
    let bound = include_str!("../src/prefix_h.rs")
        .matches("    pub struct_size: i32,")
        .count();
    assert_eq!(sizes.len(), bound, "a struct is missing in this list");
    let print =
        |(name, _): &(&str, usize)| format!("printf(\"{name} %zu\\n\", sizeof(struct {name}));\n");
    let body: String = sizes.iter().map(print).collect();
    let ours: Vec<_> = sizes
        .iter()
        .map(|(name, size)| format!("{name} {size}"))
        .collect();
    assert_eq!(run_c("sizes", &program("prefix.h", &body)), ours);
}

#[test]
fn structs_begin_with_their_size() {
    use prefix_sys::Init;
    let error = prefix_sys::prefix_error::init();
    assert_eq!(
        (error.struct_size as usize, error.code),
        (size_of_val(&error), 0)
    );
    let event = prefix_sys::prefix_event::init();
    assert_eq!(
        (event.struct_size as usize, event.kind),
        (size_of_val(&event), 0)
    );
}
