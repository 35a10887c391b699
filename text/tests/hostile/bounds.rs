//! What a template may take.

use crate::support::capi::*;
use crate::support::memory;
use std::time::Duration;

pub const MB: usize = 1 << 20;

/// Processor time, of a slow processor.
pub const SLOWEST: Duration = Duration::from_secs(10);

/// Processor time of this process, which a busy machine does not lengthen.
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs `body` and says how long it took and by how much memory grew at most.
pub fn measured<T>(body: impl FnOnce() -> T) -> (T, Duration, usize) {
    memory::reset_peak();
    let before = memory::resident();
    let begin = processor_time();
    let result = body();
    let took = processor_time() - begin;
    (result, took, memory::peak().saturating_sub(before))
}

pub const ONE: &str = r#"[{"role": "user", "content": "hello"}]"#;

/// A template in which BIG is a text of 8 MB and N grows things for as long as it may.
pub fn expand(template: &str) -> String {
    let prelude = "{% set big = 'x' * 8000000 %}{% set ns = namespace(s='xy', l=[1, 2], m={}) %}";
    let repeat = "{% for i in range(90000) %}";
    format!(
        "{prelude}{}",
        template
            .replace("REPEAT", repeat)
            .replace("END", "{% endfor %}")
    )
}

/// Renders and expects a refusal that says that it is too much.
pub fn too_much(template: &str) {
    let tokenizer = Tokenizer::with_template(template).unwrap();
    let (result, took, grew) = measured(|| tokenizer.chat_text(ONE, ""));
    let shown: String = template.chars().take(200).collect();
    match result {
        Ok(text) => panic!("{shown}\n  rendered {} bytes", text.len()),
        Err(e) => assert_eq!(e.code, OUT_OF_RANGE, "{shown}\n  {}", e.message),
    }
    assert!(took < SLOWEST, "{shown}\n  took {took:?}");
    assert!(grew < 700 * MB, "{shown}\n  took {} MB", grew / MB);
}

/// Renders and expects any status, but in bounds.
pub fn bounded(template: &str) {
    let tokenizer = Tokenizer::with_template(template).unwrap();
    let (result, took, grew) = measured(|| tokenizer.chat_text(ONE, ""));
    let shown: String = template.chars().take(200).collect();
    if let Err(e) = result {
        assert_ne!(e.code, 1000, "{shown}\n  {}", e.message);
    }
    assert!(took < SLOWEST, "{shown}\n  took {took:?}");
    assert!(grew < 700 * MB, "{shown}\n  took {} MB", grew / MB);
}
