//! What the tests share: the tiny model, the golden file, and how the library is found at run time.
#![allow(dead_code)] // each test program uses a part

pub mod json;

use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{mpsc, Arc, OnceLock};
use std::task::{Context, Poll, Wake};
use std::time::Duration;

#[cfg(feature = "text")]
use prefix::Tokenizer;
use prefix::{Engine, Options};

/// The source tree.
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."))
}

/// A folder of build/golden-models.
pub fn model(name: &str) -> PathBuf {
    let path = root().join("build/golden-models").join(name);
    assert!(
        path.exists(),
        "{} is missing: run tools/run_tests models",
        path.display()
    );
    path
}

/// With the feature `dynamic`, the library that the other tests link.
pub fn load_library() {
    #[cfg(feature = "dynamic")]
    {
        let folder = match std::env::var_os("PREFIX_LIB_DIR") {
            Some(folder) => PathBuf::from(folder),
            None => root().join("build/lib"),
        };
        prefix::library::load(folder.join("libprefix.so.1")).unwrap();
        #[cfg(feature = "text")]
        prefix::library::load_text(folder.join("libprefix_text.so.1")).unwrap();
    }
}

pub fn options() -> Options {
    load_library();
    Options::new().unwrap()
}

/// The tiny model on one thread.
pub fn engine() -> Engine {
    engine_with(1)
}

pub fn engine_with(threads: usize) -> Engine {
    Engine::open_with(
        model("llama-base"),
        &options().set("threads", threads).unwrap(),
    )
    .unwrap()
}

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// tokenizer.json and tokenizer_config.json with a token for each of the first bytes, in GPT-2's spelling of
/// bytes, and two special ones after them.
pub fn byte_tokenizer(bytes: u32) -> (String, String) {
    let plain = |b: &u32| matches!(b, 33..=126 | 161..=172 | 174..=255);
    let mut next = 256;
    let mut vocabulary = Vec::new();
    for byte in 0..256 {
        let code = if plain(&byte) {
            byte
        } else {
            next += 1;
            next - 1
        };
        let name = match char::from_u32(code).unwrap() {
            c @ ('"' | '\\') => format!("\\{c}"),
            c => c.to_string(),
        };
        if byte < bytes {
            vocabulary.push(format!("\"{name}\": {byte}"));
        }
    }
    let special = |id: u32, name: &str| {
        format!(
            r#"{{"id": {id}, "content": "{name}", "single_word": false, "lstrip": false,
                 "rstrip": false, "normalized": false, "special": true}}"#
        )
    };
    let byte_level = r#"{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false,
        "use_regex": false}"#;
    let tokenizer = format!(
        r#"{{"version": "1.0", "added_tokens": [{}, {}], "normalizer": null,
            "pre_tokenizer": {byte_level}, "decoder": {byte_level}, "post_processor": null,
            "model": {{"type": "BPE", "vocab": {{{}}}, "merges": []}}}}"#,
        special(bytes, "<|start|>"),
        special(bytes + 1, "<|end|>"),
        vocabulary.join(", ")
    );
    // Two templates; the first reads all that one can be told.
    let full = [
        "{% for t in tools or [] %}[{{ t.name }}]{% endfor %}{% for d in documents or [] %}({{ d.text }}){% endfor %}",
        "{% if dated %}{{ strftime_now('%Y-%m-%d') }} {% endif %}",
        "{% for m in messages %}<|start|>{{ m.role }}: {{ m.content }}<|end|>{% endfor %}",
        "{% if add_generation_prompt %}<|start|>assistant: {% if enable_thinking %}<think>{% endif %}{% endif %}",
    ]
    .concat();
    let short = "{{ messages[-1].content }}";
    let config = format!(
        r#"{{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>",
            "chat_template": [{{"name": "default", "template": "{full}"}},
                              {{"name": "short", "template": "{short}"}}]}}"#
    );
    (tokenizer, config)
}

/// A folder with the tiny model and a tokenizer for it: its 131 tokens are ASCII, two special ones, and one
/// that means nothing.
pub fn ascii_model() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let folder = folder.join(concat!("ascii-model-", env!("CARGO_CRATE_NAME")));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["config.json", "model.safetensors"] {
            std::fs::copy(model("llama-base").join(name), folder.join(name)).unwrap();
        }
        let (tokenizer, config) = byte_tokenizer(129); // with two special ones, all of the model's
        std::fs::write(folder.join("tokenizer.json"), tokenizer).unwrap();
        std::fs::write(folder.join("tokenizer_config.json"), config).unwrap();
        folder
    };
    FOLDER.get_or_init(make).clone()
}

/// An engine of that model, on one thread, and its tokenizer.
#[cfg(feature = "text")]
pub fn open() -> (Engine, Tokenizer) {
    let folder = ascii_model();
    let options = options().set("threads", 1).unwrap();
    (
        Engine::open_with(&folder, &options).unwrap(),
        Tokenizer::open(&folder).unwrap(),
    )
}

/// Of a text that goes on to its last token, with its pieces.
pub fn writing(max_tokens: usize) -> Options {
    let options = options().set("max_tokens", max_tokens).unwrap();
    let options = options.set("ignore_eos", true).unwrap();
    options.set("stream", true).unwrap()
}

/// Resident bytes of this process.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

struct Bell(mpsc::Sender<()>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _ = self.0.send(());
    }
}

/// The smallest executor: sleeps until it is woken.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let (sender, receiver) = mpsc::channel();
    let waker = Arc::new(Bell(sender)).into();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => receiver
                .recv_timeout(Duration::from_secs(60))
                .expect("never woken"),
        }
    }
}

pub fn threads_of_this_process() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}
