//! How the processor computes with floating point is a setting of each thread, which a new thread takes over from the one
//! that starts it.

/// While it lives, this thread rounds to the nearest and keeps denormal numbers, whatever its owner has set: scores and the
/// cuts of a tokenizer must not depend on a host that rounds upwards.
pub struct PlainFloats {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    before: Control,
}

#[cfg(target_arch = "x86_64")]
type Control = u32;
#[cfg(target_arch = "aarch64")]
type Control = u64;

/// As a program starts; the flags of what happened are not compared.
#[cfg(target_arch = "x86_64")]
const PLAIN: Control = 0x1f80;
#[cfg(target_arch = "x86_64")]
const SETTINGS: Control = !0x3f;
#[cfg(target_arch = "aarch64")]
const PLAIN: Control = 0;
#[cfg(target_arch = "aarch64")]
const SETTINGS: Control = !0;

#[cfg(target_arch = "x86_64")]
fn control() -> Control {
    let mut now = 0;
    // SAFETY: writes a register to a variable.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut now, options(nostack, preserves_flags)) };
    now
}
#[cfg(target_arch = "x86_64")]
fn set_control(control: Control) {
    // SAFETY: `control` is what a thread had, or what each begins with.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &control, options(nostack, preserves_flags)) };
}

#[cfg(target_arch = "aarch64")]
fn control() -> Control {
    let now;
    // SAFETY: reads a register.
    unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) now, options(nostack, preserves_flags)) };
    now
}
#[cfg(target_arch = "aarch64")]
fn set_control(control: Control) {
    // SAFETY: `control` is what a thread had, or what each begins with.
    unsafe { std::arch::asm!("msr fpcr, {}", in(reg) control, options(nostack, preserves_flags)) };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl PlainFloats {
    pub fn new() -> Self {
        let before = control();
        if before & SETTINGS != PLAIN {
            set_control(PLAIN);
        }
        PlainFloats { before }
    }
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl Drop for PlainFloats {
    fn drop(&mut self) {
        if self.before & SETTINGS != PLAIN {
            set_control(self.before);
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl PlainFloats {
    pub fn new() -> Self {
        PlainFloats {}
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::ffi::entry;
    use std::hint::black_box;

    const UPWARDS: Control = PLAIN | 0x4000;

    fn third() -> f64 {
        black_box(1.0) / black_box(3.0)
    }

    #[test]
    fn a_host_that_rounds_upwards_gets_the_same_bits() {
        set_control(UPWARDS);
        let (mut found, mut of_thread) = (0.0, 0.0);
        let status = unsafe {
            entry(std::ptr::null_mut(), "test", || {
                found = third();
                of_thread = std::thread::spawn(third).join().unwrap_or_default();
                Ok(())
            })
        };
        let (after, upwards) = (control(), third());
        set_control(PLAIN);
        assert_eq!(after & SETTINGS, UPWARDS, "the setting is the host's");
        assert_eq!((status, found, of_thread), (0, third(), third()));
        assert!(upwards > third());
    }
}
