//! Options and the log.

mod support;

use std::sync::{Arc, Mutex};

use prefix::log::{self, Level};
use prefix::{OptionType, Options, Scope, Status, Value};
use support::options;

#[test]
fn a_builder_has_a_method_for_every_option() {
    use std::time::Duration;
    support::load_library();
    let options = Options::builder()
        .threads(3)
        .temperature(0.5)
        .cache(false)
        .deadline(Duration::from_millis(1500))
        .stop_tokens(&[2, 7])
        .namespace("été")
        .stop(&["a", "é"])
        .build()
        .unwrap();
    let got = |key: &str| options.get(key).unwrap();
    assert_eq!(got("threads"), "3");
    assert_eq!(got("temperature").parse(), Ok(0.5));
    assert_eq!(got("cache"), "false");
    assert_eq!(got("deadline_ms"), "1500");
    assert_eq!(got("stop_tokens"), "2,7");
    assert_eq!(got("namespace"), "été");
    assert_eq!(got("stop"), r#"["a","é"]"#);
    for (time, expected) in [
        (Duration::ZERO, "0"),
        (Duration::from_nanos(1), "1"),
        (Duration::from_micros(999), "1"),
        (Duration::from_micros(2500), "2"),
    ] {
        let options = Options::builder().deadline(time).cache_ttl(time).build();
        let options = options.unwrap();
        assert_eq!(options.get("deadline_ms").unwrap(), expected, "{time:?}");
        assert_eq!(options.get("cache_ttl_ms").unwrap(), expected, "{time:?}");
    }
    let forever = Options::builder().deadline(Duration::MAX).build();
    assert_eq!(forever.unwrap_err().status(), Status::OutOfRange);
    let refused = Options::builder().threads(-1).temperature(9e9).build();
    let error = refused.unwrap_err();
    assert_eq!(error.status(), Status::OutOfRange);
    assert!(error.message().contains("threads"), "{error}");

    let methods = include_str!("../src/option_methods.rs");
    for info in prefix::option_infos().unwrap() {
        let method = format!(".with(\"{}\"", info.key);
        assert!(
            methods.contains(&method),
            "{method}: tools/option_methods writes it"
        );
    }
}

#[test]
fn values_of_every_kind_are_kept() {
    let options = options()
        .set("threads", 3)
        .and_then(|o| o.set("temperature", 0.5))
        .and_then(|o| o.set("cache", false))
        .and_then(|o| o.set("cache_bytes", "2M"))
        .and_then(|o| o.set("stop_tokens", &[2, 7]))
        .and_then(|o| o.set("namespace", &String::from("été")))
        .and_then(|o| o.set("stop", &["a \"b\"", "é"]))
        .and_then(|o| o.set_json(r#"{"max_tokens": 9, "seed": -1}"#))
        .unwrap();
    let got = |key: &str| options.get(key).unwrap();
    assert_eq!(got("threads"), "3");
    assert_eq!(got("temperature").parse(), Ok(0.5));
    assert_eq!(got("cache"), "false");
    assert_eq!(got("cache_bytes"), "2M");
    assert_eq!(got("stop_tokens"), "2,7");
    assert_eq!(got("namespace"), "été");
    assert_eq!((got("max_tokens"), got("seed")), ("9".into(), "-1".into()));
    assert_eq!(got("stop"), r#"["a \"b\"","é"]"#);
    assert_eq!(got("dtype"), "bf16", "a default");
    let copy = Options::new().unwrap().set_json(&options.json().unwrap());
    let copy = copy.unwrap();
    for key in ["threads", "cache", "stop_tokens", "stop", "seed"] {
        assert_eq!(copy.get(key).unwrap(), got(key));
    }
    assert_eq!(Value::from(usize::MAX), Value::Int(i64::MAX));
}

#[test]
fn lists_of_texts_come_from_lists_of_all_kinds() {
    let owned = vec!["é".to_string(), String::new()];
    let borrowed: Vec<&str> = owned.iter().map(String::as_str).collect();
    let expected = Value::Texts(vec!["é", ""]);
    assert_eq!(Value::from(&owned), expected);
    assert_eq!(Value::from(owned.as_slice()), expected);
    assert_eq!(Value::from(&borrowed), expected);
    assert_eq!(Value::from(borrowed.as_slice()), expected);
    assert_eq!(Value::from(&["é", ""]), expected);
    let none: [&str; 0] = [];
    let set = options().set("stop", &["x"]).unwrap().set("stop", &none);
    assert_eq!(set.unwrap().get("stop").unwrap(), "[]");
    for (one, list) in [(".", r#"["."]"#), ("[1]", r#"["[1]"]"#)] {
        let set = options().set("stop", one).unwrap();
        assert_eq!(set.get("stop").unwrap(), list);
    }
    let no_ints: [i32; 0] = [];
    let set = options().set("stop_tokens", &no_ints).unwrap();
    assert_eq!(set.get("stop_tokens").unwrap(), "");
    let refused = options().set("threads", &["1"]).unwrap_err();
    assert_eq!(refused.status(), Status::InvalidArgument);
}

#[test]
fn what_is_wrong_changes_nothing() {
    let mut options: Options = options().set("threads", 3).unwrap();
    for (key, value, status) in [
        ("threads", "many", Status::InvalidArgument),
        ("threads", "5000", Status::OutOfRange),
        ("treads", "1", Status::UnknownOption),
    ] {
        assert_eq!(options.put(key, value).unwrap_err().status(), status);
    }
    assert_eq!(options.get("threads").unwrap(), "3");
    assert_eq!(
        options.get("none").unwrap_err().status(),
        Status::UnknownOption
    );
    let error = options.set_json(r#"{"rows": 5, "cache": 7}"#).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
}

#[test]
fn the_library_lists_its_options() {
    support::load_library();
    let infos = prefix::option_infos().unwrap();
    let threads = infos.iter().find(|info| info.key == "threads").unwrap();
    assert_eq!(
        (threads.kind, threads.scope),
        (OptionType::Int, Scope::Engine)
    );
    assert_eq!((threads.default, threads.range.0), ("0", 0.0));
    let stop = infos.iter().find(|info| info.key == "stop").unwrap();
    assert_eq!((stop.kind, stop.scope), (OptionType::Texts, Scope::Task));
    let dtype = infos.iter().find(|info| info.key == "dtype").unwrap();
    assert_eq!(dtype.values, "bf16|f32");
    let options = options();
    for info in &infos {
        assert!(!matches!(info.kind, OptionType::Other(_)), "{info:?}");
        assert!(!matches!(info.scope, Scope::Other(_)), "{info:?}");
        assert!(!info.doc.is_empty(), "{info:?}");
        assert_eq!(options.get(info.key).unwrap(), info.default);
    }
}

#[test]
fn messages_come_by_asking_or_by_call() {
    support::load_library();
    log::set_level(Level::Debug).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    log::set_sink(move |level, text| {
        sink.lock().unwrap().push((level, text.to_string()));
        assert!(!text.is_empty());
        panic!("a panic of the sink is swallowed");
    })
    .unwrap();
    drop(support::engine());
    log::clear_sink().unwrap();
    let called = seen.lock().unwrap().len();
    drop(support::engine());
    assert_eq!(
        seen.lock().unwrap().len(),
        called,
        "called after clear_sink"
    );
    let mut asked = 0;
    while let Some((level, text)) = log::next().unwrap() {
        assert!(level <= Level::Error && !text.is_empty());
        asked += 1;
    }
    log::set_level(Level::Warning).unwrap();
    assert_eq!(called > 0, asked > 0, "{called} by call, {asked} by asking");
}
