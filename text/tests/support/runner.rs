//! Runs tests that need files which may not be there: cargo's own runner cannot skip a test while it
//! runs. Prints what that runner prints.

use std::panic::{catch_unwind, AssertUnwindSafe};

pub enum Skip {
    No,
    /// With the reason.
    Yes(String),
}

/// Skips when a file of the repository is missing, and says what makes it.
pub fn need(path: &str, maker: &str) -> Skip {
    if super::file(path).exists() {
        Skip::No
    } else {
        Skip::Yes(format!("{path} is missing; {maker} fetches it"))
    }
}

pub type Test = (&'static str, fn() -> Skip, fn());

/// Ends the process: 101 when a test failed, as cargo expects.
pub fn main(tests: &[Test]) -> ! {
    let filters: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let chosen: Vec<&Test> = tests
        .iter()
        .filter(|(name, ..)| filters.is_empty() || filters.iter().any(|f| name.contains(&**f)))
        .collect();
    println!("\nrunning {} tests", chosen.len());
    let (mut passed, mut failed, mut ignored) = (0, 0, 0);
    for (name, needs, body) in chosen {
        if let Skip::Yes(reason) = needs() {
            println!("test {name} ... ignored, {reason}");
            ignored += 1;
        } else if catch_unwind(AssertUnwindSafe(body)).is_ok() {
            println!("test {name} ... ok");
            passed += 1;
        } else {
            println!("test {name} ... FAILED");
            failed += 1;
        }
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; \
         {} filtered out\n",
        tests.len() - passed - failed - ignored
    );
    std::process::exit(if failed == 0 { 0 } else { 101 })
}
