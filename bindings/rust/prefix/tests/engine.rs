//! Engines: opening, failing, closing, what they tell, their cache.

mod support;

use std::sync::Arc;
use std::time::Duration;

use prefix::{Engine, EngineState, Options, Pool, Request, Source, Status};
use support::{bits, engine, model, options};

#[test]
fn handles_cross_threads_as_the_header_allows() {
    fn send<T: Send>() {}
    fn share<T: Send + Sync + Clone + 'static>() {}
    share::<prefix::Engine>();
    share::<prefix::Job>();
    send::<prefix::Batch>();
    fn sync<T: Send + Sync>() {}
    sync::<prefix::Options>();
    sync::<prefix::Pool>();
    send::<prefix::Finished>();
    send::<prefix::Loading>();
    fn error<T: std::error::Error + Send + Sync + 'static>() {}
    error::<prefix::Error>();
}

#[test]
fn errors_are_those_of_the_standard_library() {
    use std::io::{self, ErrorKind};
    support::load_library();
    fn opened() -> io::Result<Engine> {
        Ok(Engine::open("/nowhere")?)
    }
    let error = opened().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let inner = error.get_ref().unwrap().downcast_ref::<prefix::Error>();
    assert!(inner.unwrap().message().contains("/nowhere"));
    let unknown = support::options().set("thread", 3).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::InvalidInput);
    let kinds = [
        (Status::NotFound, ErrorKind::NotFound),
        (Status::InvalidArgument, ErrorKind::InvalidInput),
        (Status::OutOfRange, ErrorKind::InvalidInput),
        (Status::PromptTooLong, ErrorKind::InvalidInput),
        (Status::InvalidUtf8, ErrorKind::InvalidData),
        (Status::Format, ErrorKind::InvalidData),
        (Status::IncompatibleSnapshot, ErrorKind::InvalidData),
        (Status::UnsupportedModel, ErrorKind::Unsupported),
        (Status::UnsupportedDevice, ErrorKind::Unsupported),
        (Status::Timeout, ErrorKind::TimedOut),
        (Status::Deadline, ErrorKind::TimedOut),
        (Status::QueueFull, ErrorKind::WouldBlock),
        (Status::NoEvent, ErrorKind::WouldBlock),
        (Status::OutOfMemory, ErrorKind::OutOfMemory),
        (Status::OutOfDeviceMemory, ErrorKind::OutOfMemory),
        (Status::CacheFull, ErrorKind::OutOfMemory),
        (Status::Cancelled, ErrorKind::Other),
        (Status::Other(31415), ErrorKind::Other),
    ];
    for (status, kind) in kinds {
        assert_eq!(status.kind(), kind, "{status}");
    }
}

#[test]
fn errors_carry_code_and_message() {
    support::load_library();
    let error = Engine::open("/nowhere/model.gguf").unwrap_err();
    assert_eq!(error.status(), Status::NotFound);
    assert_eq!(error.code(), 300);
    assert!(error.message().contains("/nowhere/model.gguf"), "{error}");
    assert_eq!(error.function(), "prefix_engine_create");
    assert!(
        error.to_string().ends_with("(PREFIX_ERR_NOT_FOUND)"),
        "{error}"
    );

    let error = options().set("thread", 2).unwrap_err();
    assert_eq!(error.status(), Status::UnknownOption);
    assert!(
        error.message().contains("threads"),
        "names the nearest: {error}"
    );
    let error = options().set("threads", -1).unwrap_err();
    assert_eq!(error.status(), Status::OutOfRange);
}

#[test]
#[cfg(unix)]
fn a_path_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    support::load_library();
    let path = std::ffi::OsStr::from_bytes(b"/tmp/\xff");
    assert_eq!(
        Engine::open(path).unwrap_err().status(),
        Status::InvalidUtf8
    );
}

#[test]
fn a_load_can_be_watched_and_given_up() {
    let options = options().set("threads", 1).unwrap();
    let loading = Engine::load(model("llama-base"), Some(&options)).unwrap();
    let mut before = 0.0;
    while !loading.wait_for(Duration::from_millis(1)).unwrap() {
        let fraction = loading.fraction().unwrap();
        assert!(before <= fraction && fraction <= 1.0, "{before} {fraction}");
        before = fraction;
    }
    assert_eq!(loading.fraction().unwrap(), 1.0);
    assert_eq!(loading.wait().unwrap().state(), EngineState::Ready);

    drop(Engine::load(model("llama-base"), None).unwrap());

    let failing = Engine::load("/nowhere", None).unwrap();
    assert_eq!(failing.wait().unwrap_err().status(), Status::NotFound);
    let refused = Engine::load("", None).unwrap_err();
    assert_eq!(refused.status(), Status::InvalidArgument);
}

#[test]
fn a_load_can_be_awaited() {
    support::load_library();
    let engine = support::block_on(Engine::load(model("llama-base"), None).unwrap()).unwrap();
    assert_eq!(engine.state(), EngineState::Ready);
    let failed = support::block_on(Engine::load("/nowhere", None).unwrap());
    assert_eq!(failed.unwrap_err().status(), Status::NotFound);
}

#[test]
fn a_model_in_memory_is_the_same_model() {
    support::load_library();
    let read = |name: &str| std::fs::read(model("llama-base").join(name)).unwrap();
    let mut source = Source::new().unwrap();
    source.add("config.json", read("config.json")).unwrap();
    let weights: Arc<[u8]> = read("model.safetensors").into();
    source.add("model.safetensors", weights.clone()).unwrap();
    let twice = source.add("config.json", &b"{}"[..]).unwrap_err();
    assert_eq!(twice.status(), Status::InvalidArgument);

    let loading = Engine::load_source(&source, None).unwrap();
    drop(source);
    assert!(Arc::strong_count(&weights) > 1, "kept while it is read");
    let fed = loading.wait().unwrap();
    assert_eq!(Arc::strong_count(&weights), 1, "and no longer");

    let score = |engine: &Engine| {
        let mut batch = engine.batch().unwrap();
        batch.add(Request::logits(&[1, 2, 3], &[4, 5])).unwrap();
        bits(engine.run(&batch).unwrap().values(0).unwrap().as_slice())
    };
    assert_eq!(
        score(&fed),
        score(&Engine::open(model("llama-base")).unwrap())
    );
    let nothing = Engine::load_source(&Source::new().unwrap(), None).unwrap_err();
    assert_eq!(nothing.status(), Status::InvalidArgument);
}

// An adapter of rank 1 for the first query matrix, with zeros: F32, the model is 64 wide.
fn adapter(hidden: usize, queries: usize) -> (Vec<u8>, Vec<u8>) {
    let config = br#"{"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["q_proj"]}"#;
    let name = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
    let header = format!(
        "{{\"{name}A.weight\":{{\"dtype\":\"F32\",\"shape\":[1,{hidden}],\"data_offsets\":[0,{}]}},\
          \"{name}B.weight\":{{\"dtype\":\"F32\",\"shape\":[{queries},1],\"data_offsets\":[{},{}]}}}}",
        4 * hidden,
        4 * hidden,
        4 * (hidden + queries)
    );
    let mut tensors = (header.len() as u64).to_le_bytes().to_vec();
    tensors.extend_from_slice(header.as_bytes());
    tensors.resize(tensors.len() + 4 * (hidden + queries), 0);
    (config.to_vec(), tensors)
}

#[test]
fn an_adapter_may_be_in_memory() {
    support::load_library();
    let engine = Engine::open(model("llama-base")).unwrap();
    let info = engine.info_json().unwrap();
    let size = |key: &str| -> usize {
        let (_, rest) = info.split_once(&format!("\"{key}\":")).unwrap();
        rest.split(',').next().unwrap().parse().unwrap()
    };
    let (config, tensors) = adapter(size("hidden"), size("heads") * size("head_dim"));
    let mut source = Source::new().unwrap();
    source.add("adapter_config.json", config).unwrap();
    let missing = engine.load_adapter_source("fed", &source).unwrap_err();
    assert_eq!(missing.status(), Status::NotFound);
    source.add("adapter_model.safetensors", tensors).unwrap();
    engine.load_adapter_source("fed", &source).unwrap();
    assert!(engine.adapters_json().unwrap().contains("\"fed\""));
    engine.unload_adapter("fed").unwrap();
}

#[test]
fn memory_is_told_before_loading() {
    support::load_library();
    let info = Engine::model_info_json(model("llama-base")).unwrap();
    assert!(info.contains("\"layers\":2"), "{info}");
    assert!(Engine::model_info_json("no such model").is_err());
    let memory = Engine::estimate(model("llama-base"), None).unwrap();
    assert!(memory.weight_bytes > 100_000, "{memory:?}");
    assert!(memory.total_bytes >= memory.weight_bytes);
}

#[test]
fn tells_what_it_is_and_does() {
    let engine = engine();
    assert_eq!(engine.state(), EngineState::Ready);
    assert!(engine.info_json().unwrap().contains("\"llama\""));
    let mut batch = engine.batch().unwrap();
    batch.add(Request::logits(&[1, 2, 3], &[4])).unwrap();
    batch.add(Request::logits(&[1, 2, 9], &[4])).unwrap();
    engine.run(&batch).unwrap();
    let stats = engine.stats().unwrap();
    assert_eq!((stats.requests_finished, stats.tokens_given), (2, 6));
    assert_eq!(
        stats.tokens_given,
        stats.tokens_cached + stats.tokens_shared + stats.tokens_computed
    );
    assert!(stats.tokens_shared >= 2, "{stats:?}");
    assert!(engine.metrics_text().unwrap().contains("prefix_"));
}

#[test]
fn the_machine_and_the_library_are_described() {
    support::load_library();
    assert!(prefix::version().unwrap().split('.').count() == 3);
    assert!(prefix::build_info()
        .unwrap()
        .contains(prefix::version().unwrap()));
    assert!(prefix::features().unwrap().contains(&"cpu"));
    let devices = prefix::devices().unwrap();
    assert!(prefix::features().unwrap().contains(&devices[0].level));
    for (place, device) in devices.iter().enumerate() {
        assert_eq!(device.kind == "cpu", place == 0, "{device:?}");
        assert_eq!(device.chosen, place == 0, "{device:?}");
        assert_eq!(device.available, device.reason.is_empty(), "{device:?}");
    }
}

#[test]
fn engines_share_a_pool() {
    support::load_library();
    let new = || Options::new().unwrap();
    let pool = Pool::new(Some(&new().set("threads", 2).unwrap())).unwrap();
    let options = new().set("cache_bytes", "16M").unwrap();
    let options = options.set_pool(Some(&pool)).unwrap();
    let open = |options: &Options| Engine::open_with(model("llama-base"), options);
    let engines = [open(&options).unwrap(), open(&options).unwrap()];
    drop(pool);
    for engine in &engines {
        let info = engine.info_json().unwrap();
        assert!(info.contains(r#""pool":true"#), "{info}");
    }
    let both = options.set("threads", 2).unwrap();
    let refused = open(&both).unwrap_err();
    assert_eq!(refused.status(), Status::InvalidArgument);
    assert!(open(&both.set_pool(None).unwrap()).is_ok());
    let refused = Pool::new(Some(&new().set("dtype", "f32").unwrap())).unwrap_err();
    assert_eq!(refused.status(), Status::InvalidArgument);
}

#[test]
fn batches_and_jobs_keep_their_engine() {
    let engine = engine();
    let mut batch = engine.batch().unwrap();
    batch.add(Request::logits(&[1, 2, 3], &[4])).unwrap();
    let other = engine.clone();
    drop(engine);
    let job = other.run(&batch).unwrap();
    drop(other);
    drop(batch);
    assert_eq!(job.values(0).unwrap().len(), 1);
}

#[test]
fn shutdown_takes_the_engine_from_all_who_hold_it() {
    let engine = engine();
    let (clone, mut batch) = (engine.clone(), engine.batch().unwrap());
    batch.add(Request::logits(&[1, 2, 3], &[4])).unwrap();
    engine.shutdown(Duration::ZERO).unwrap(); // `engine` is gone for the compiler
    assert_eq!(clone.state(), EngineState::Closed);
    assert_eq!(clone.run(&batch).unwrap_err().status(), Status::Misuse);
    assert_eq!(clone.cache().trim(0).unwrap_err().status(), Status::Misuse);
    assert!(clone.stats().is_ok(), "what it has done can still be asked");
}

#[test]
fn a_batch_of_another_engine_is_refused() {
    let (one, two) = (engine(), engine());
    let mut batch = one.batch().unwrap();
    batch.add(Request::logits(&[1, 2, 3], &[4])).unwrap();
    assert!(two.run(&batch).is_err());
    let mut plan = prefix::Batch::plan_only().unwrap();
    plan.add(Request::embedding(&[1, 2])).unwrap();
    assert!(plan.plan_json().unwrap().contains("\"tokens_distinct\""));
    assert!(one.run(&plan).is_err());
}

#[test]
fn the_cache_can_be_looked_into_and_emptied() {
    let engine = engine();
    let prompt: Vec<i32> = (1..=40).collect();
    assert_eq!(engine.cache().lookup(&prompt).unwrap().cached_tokens, 0);
    let mut batch = engine.batch().unwrap();
    batch.add(Request::logits(&prompt, &[4])).unwrap();
    let cold = engine.run(&batch).unwrap().values(0).unwrap();
    assert_eq!(engine.cache().lookup(&prompt).unwrap().cached_tokens, 40);
    let warm = engine.run(&batch).unwrap();
    assert!(warm.info(0).unwrap().cached_tokens >= 39);
    assert_eq!(bits(&warm.values(0).unwrap()), bits(&cold));
    assert!(engine.cache().tree_json().unwrap().contains("40"));
    assert_eq!(engine.cache().trim(0).unwrap(), 40);
    assert_eq!(engine.cache().lookup(&prompt).unwrap().cached_tokens, 0);
}

#[test]
fn namespaces_share_nothing() {
    let engine = engine();
    assert_eq!(
        engine.find_namespace("tenant").unwrap_err().status(),
        Status::NotFound
    );
    let tenant = engine.namespace("tenant").unwrap();
    assert_eq!(engine.find_namespace("tenant").unwrap().id(), tenant.id());
    assert_eq!(engine.namespace_count().unwrap(), 2);
    let options = options().set("namespace", "tenant").unwrap();
    let mut batch = engine.batch().unwrap();
    batch
        .add(Request::logits(&[1, 2, 3], &[4]).options(&options))
        .unwrap();
    engine.run(&batch).unwrap();
    assert_eq!(tenant.cache().lookup(&[1, 2, 3]).unwrap().cached_tokens, 3);
    assert_eq!(engine.cache().lookup(&[1, 2, 3]).unwrap().cached_tokens, 0);
    assert_eq!(tenant.evict().unwrap(), 3);
    assert_eq!(tenant.close().unwrap(), 0);
    assert_eq!(tenant.close().unwrap_err().status(), Status::NotFound);
    assert_ne!(engine.namespace("tenant").unwrap().id(), tenant.id());
}
