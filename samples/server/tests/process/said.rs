//! What the program tells its operator.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{json, Value};

use crate::client::{post, request, Connection};
use crate::program::{command, end, Program};

/// What the program says on standard error while it is asked.
fn said(program: &mut Command, ask: impl FnOnce(&Program)) -> Vec<String> {
    let mut program = program.stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(program.stderr.take().unwrap());
    let program = Program::of(program);
    ask(&program);
    program.stop();
    said.lines().map(Result::unwrap).collect()
}

/// Of an engine when it is there, and later.
#[test]
fn what_the_library_warns_of_is_said() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("broken-cache");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("tmp"); // in place of a folder
    fs::write(&file, "").unwrap();
    for (path, says) in [(&file, "cache_disk"), (&folder, "cannot open a file")] {
        let option = format!("cache_disk={}", path.display());
        let lines = said(&mut command(&[], &["--option", &option]), |program| {
            let body = json!({"prompt": "a ".repeat(100), "max_tokens": 1});
            let answer = post(program.address, "/v1/completions", &body);
            assert_eq!(answer.unwrap().code, 200);
        });
        let begin = "prefix-server: warning: ";
        let told = |line: &&String| line.starts_with(begin) && line.contains(says);
        assert_eq!(lines.iter().filter(told).count(), 1, "{lines:?}");
    }
}

/// Writes a model whose tensors have a number each; so many are before it.
fn write_model(folder: &Path, number: impl Fn(usize) -> f32) {
    fs::create_dir_all(folder).unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).unwrap();
    let vocabulary: Value = ('a'..='z')
        .zip(0..)
        .map(|(c, i)| (c.to_string(), json!(i)))
        .collect();
    let model = json!({"type": "BPE", "vocab": vocabulary, "merges": []});
    let tokenizer = json!({"version": "1.0", "added_tokens": [], "model": model});
    write("tokenizer.json", tokenizer.to_string().as_bytes());
    let config = json!({"model_type": "llama", "vocab_size": 26, "hidden_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 1, "intermediate_size": 8, "rms_norm_eps": 1e-6, "max_position_embeddings": 64,
        "tie_word_embeddings": true});
    write("config.json", config.to_string().as_bytes());
    let (mut header, mut bytes) = (json!({}), Vec::new());
    for (name, shape) in [
        ("model.embed_tokens", vec![26, 8]),
        ("model.norm", vec![8]),
        ("model.layers.0.input_layernorm", vec![8]),
        ("model.layers.0.post_attention_layernorm", vec![8]),
        ("model.layers.0.self_attn.q_proj", vec![8, 8]),
        ("model.layers.0.self_attn.k_proj", vec![8, 8]),
        ("model.layers.0.self_attn.v_proj", vec![8, 8]),
        ("model.layers.0.self_attn.o_proj", vec![8, 8]),
        ("model.layers.0.mlp.gate_proj", vec![8, 8]),
        ("model.layers.0.mlp.up_proj", vec![8, 8]),
        ("model.layers.0.mlp.down_proj", vec![8, 8]),
        ("lm_head", vec![26, 8]),
    ] {
        let (begin, count) = (bytes.len(), shape.iter().product());
        let value = number(header.as_object().unwrap().len());
        bytes.extend(std::iter::repeat_n(value.to_le_bytes(), count).flatten());
        header[format!("{name}.weight")] =
            json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, bytes.len()]});
    }
    let header = header.to_string();
    let length = (header.len() as u64).to_le_bytes();
    let file = [&length, header.as_bytes(), &bytes].concat();
    write("model.safetensors", &file);
}

/// While it loads, too.
#[test]
fn what_is_odd_in_the_files_of_a_model_is_said() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("odd-model");
    // The last is not the first, to which config.json ties it.
    write_model(&folder, |before| before as f32);
    let mut program = command(&[], &["--option", "cache_bytes=1M"]);
    let lines = said(program.arg("--model").arg(&folder), |_| {});
    let begin = "prefix-server: warning: config.json ties the output matrix";
    assert!(lines[0].starts_with(begin), "{lines:?}");
}

/// The reason of what clients got wrong is theirs alone; what the service is to blame for is the operator's, too.
#[test]
fn a_fault_of_the_service_is_said() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("model-of-no-numbers");
    write_model(&folder, |_| f32::NAN);
    let mut program = command(&[], &["--option", "cache_bytes=1M"]);
    let lines = said(program.arg("--model").arg(&folder), |program| {
        let codes = [json!({"prompt": "a"}), json!({"prompt": "a", "n": 0})].map(|body| {
            post(program.address, "/v1/completions", &body)
                .unwrap()
                .code
        });
        assert_eq!(codes, [500, 400]);
    });
    let told = lines
        .iter()
        .filter(|line| line.contains("/v1/completions from 127.0.0.1:"));
    let told: Vec<&String> = told.collect();
    assert!(told.len() == 1 && told[0].contains(": 500, "), "{lines:?}");
}

#[test]
fn each_request_has_a_line_if_that_is_wanted() {
    let ask = |program: &Program| {
        let mut connection = Connection::open(program.address).unwrap();
        let name = [("x-request-id", "of-a-client")];
        let bytes = request("GET", "/nowhere/%0a?secret", &name, b"");
        connection.send(&bytes).unwrap();
        assert_eq!(connection.answer().unwrap().code, 404);
    };
    for (options, count) in [(&["--log-requests", "on"][..], 1), (&[], 0)] {
        let mut program = command(&[], &["--option", "cache_bytes=64M"]);
        let lines = said(program.args(options), ask);
        let begin = "prefix-server: of-a-client GET /nowhere/%0a from 127.0.0.1:";
        let told = |line: &&String| line.starts_with(begin) && line.ends_with(" s: 404");
        assert_eq!(lines.iter().filter(told).count(), count, "{lines:?}");
    }
}

/// Who started the program may never read what it says.
#[test]
fn what_nobody_reads_holds_nothing_up() {
    let mut program = command(&[], &["--option", "cache_bytes=64M"]);
    let program = program.args(["--log-requests", "on"]);
    let mut program = program.stderr(Stdio::piped()).spawn().unwrap();
    let unread = BufReader::new(program.stderr.take().unwrap());
    let program = Program::of(program);
    let mut connection = Connection::open(program.address).unwrap();
    let path = format!("/{}", "a".repeat(100));
    // More than a pipe and what waits for it have room for.
    for _ in 0..3000 {
        connection.send(&request("GET", &path, &[], b"")).unwrap();
        assert_eq!(connection.answer().unwrap().code, 404);
    }
    drop(connection);
    program.stop();
    let lines = unread.lines().map(Result::unwrap);
    assert!(lines.filter(|line| line.contains(&path)).count() < 3000);
}

#[test]
fn the_version_is_that_of_the_program_and_of_its_library() {
    let said = command(&[], &["--version"]).output().unwrap();
    assert!(said.status.success());
    let text = String::from_utf8(said.stdout).unwrap();
    let own = concat!("prefix-server ", env!("CARGO_PKG_VERSION"), "\nlibprefix ");
    assert!(text.starts_with(own), "{text}");
}

/// As where its log is.
#[test]
fn a_disk_that_is_full_does_not_end_it() {
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut program = command(&[], &["--option", "cache_disk=/dev/null/folder"]);
    let program = Program::of(program.stderr(full()).spawn().unwrap());
    let body = json!({"input": "a"}); // the library warns of a recipe that it guessed
    let answer = post(program.address, "/v1/embeddings", &body);
    assert_eq!(answer.unwrap().code, 200);
    program.stop();
    let mut help = command(&[], &["--help"]);
    help.stdout(full());
    let (status, said) = end(help);
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("standard output: No space left"), "{said}");
}
