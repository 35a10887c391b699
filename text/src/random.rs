//! Numbers for tests, the same in each run.

/// A generator of numbers below its argument.
pub fn random(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        seed = seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (seed >> 33) % below
    }
}
