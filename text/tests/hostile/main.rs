//! Templates, files and texts that mean harm: each ends with a status and a message, in bounded time
//! and memory. The tests run one after the other, so that memory can be measured.

mod bombs;
mod bounds;
mod files;
mod pieces;
#[path = "../support/mod.rs"]
mod support;
mod templates;
mod texts;

use support::runner::{main as run, Skip};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, name] = &arguments[..] {
        if flag == "--bomb" {
            return bombs::child(name);
        }
    }
    let nothing = || Skip::No;
    run(&[
        ("loops", nothing, templates::loops),
        ("growing_texts", nothing, templates::growing_texts),
        ("growing_lists", nothing, templates::growing_lists),
        ("single_expressions", nothing, templates::single_expressions),
        ("slow_steps", nothing, templates::slow_steps),
        ("deep_code", nothing, templates::deep_code),
        ("recursion", nothing, templates::recursion),
        ("many_turns", nothing, templates::many_turns),
        ("malformed_tokenizers", nothing, files::malformed_tokenizers),
        ("odd_json", nothing, files::odd_json),
        (
            "ids_beyond_the_vocabulary",
            nothing,
            files::ids_beyond_the_vocabulary,
        ),
        ("malformed_gguf", nothing, files::malformed_gguf),
        ("malformed_pieces", nothing, pieces::malformed_pieces),
        ("malformed_charsmaps", nothing, pieces::malformed_charsmaps),
        ("malformed_words", nothing, pieces::malformed_words),
        ("mutated_pieces", nothing, pieces::mutated_pieces),
        ("texts_of_one_piece", nothing, pieces::texts_of_one_piece),
        ("hundred_megabytes", nothing, files::hundred_megabytes),
        ("bombs", nothing, bombs::bombs),
        ("longest_text", nothing, texts::longest_text),
        ("longest_batch", nothing, texts::longest_batch),
        ("long_white_space", nothing, texts::long_white_space),
        ("invalid_utf8", nothing, texts::invalid_utf8),
    ]);
}
