//! `usage`: where the tokens of prompts came from, and of what is written what guesses of texts came to.

use prefix::{JobTotals, ResultInfo, Task};
use serde_json::{json, Map, Value};

use crate::failure::Result;

type Reason = (&'static str, fn(&ResultInfo) -> u64);

/// Why tokens were not in the cache, under the names of the metric `prefix_cache_miss_tokens_total`.
const REASONS: [Reason; 6] = [
    ("first_seen", |info| info.miss_first_seen),
    ("namespace", |info| info.miss_namespace),
    ("budget", |info| info.miss_budget),
    ("evicted", |info| info.miss_evicted),
    ("granularity", |info| info.miss_granularity),
    ("state", |info| info.miss_state),
];

/// Of prompts that are ranked or embedded.
pub fn of_prompts(totals: &JobTotals) -> Value {
    json!({
        "prompt_tokens": totals.tokens_given,
        "total_tokens": totals.tokens_given,
        "prompt_tokens_details": {"cached_tokens": totals.tokens_cached + totals.tokens_shared},
    })
}

/// Of all texts of a task. A prompt counts once, however many texts it has.
pub fn of(task: &Task, samples: usize) -> Result<Value> {
    let infos = (0..task.len()).map(|item| task.info(item));
    let infos: Vec<_> = infos.collect::<prefix::Result<_>>()?;
    let written: u64 = infos.iter().map(|info| info.generated_tokens).sum();
    // What one text of a prompt had to compute was not there yet.
    let firsts: Vec<_> = infos
        .chunks(samples)
        .filter_map(|texts| texts.iter().min_by_key(|info| found(info)))
        .collect();
    let prompt: u64 = firsts.iter().map(|info| info.prompt_tokens).sum();
    let cached: u64 = firsts.iter().map(|info| found(info)).sum();
    let mut usage = json!({
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": cached},
    });
    let missed = missed(&firsts);
    if !missed.is_empty() {
        usage["prompt_tokens_details"]["missed_tokens"] = missed.into();
    }
    let guessed: u64 = infos.iter().map(|info| info.draft_tokens).sum();
    let accepted: u64 = infos.iter().map(|info| info.draft_tokens_accepted).sum();
    if guessed > 0 {
        usage["completion_tokens_details"] = json!({
            "accepted_prediction_tokens": accepted,
            "rejected_prediction_tokens": guessed.saturating_sub(accepted),
        });
    }
    Ok(usage)
}

fn found(info: &ResultInfo) -> u64 {
    info.cached_tokens + info.shared_tokens
}

/// By reason, without those of no token.
fn missed(firsts: &[&ResultInfo]) -> Map<String, Value> {
    let sums = REASONS.iter().map(|(reason, tokens)| {
        let sum: u64 = firsts.iter().map(|info| tokens(info)).sum();
        (*reason, sum)
    });
    sums.filter(|(_, tokens)| *tokens > 0)
        .map(|(reason, tokens)| (reason.to_string(), tokens.into()))
        .collect()
}
