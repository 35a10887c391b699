//! bindings/golden_texts.txt: texts in, bits of scores out, equal in every language. bindings/make_golden says what
//! its lines mean.
#![cfg(feature = "text")]

mod support;

use prefix::{Engine, Options, Task, TaskKind, Tokenizer};
use support::{bits, model, root};

fn kind(name: &str) -> TaskKind {
    use TaskKind::*;
    let all = [Rerank, Embed, Classify, Answer, Generate, Chat];
    all.into_iter().find(|kind| kind.name() == name).unwrap()
}

/// The rests of the lines that begin with a word.
fn lines<'a>(part: &'a str, word: &str) -> Vec<&'a str> {
    let rest = |line: &'a str| line.strip_prefix(word)?.strip_prefix(' ');
    part.lines().filter_map(rest).collect()
}

#[test]
fn bit_for_bit() {
    let file = std::fs::read_to_string(root().join("bindings/golden_texts.txt")).unwrap();
    let mut parts = file.split("\ntask ");
    let with = |settings: Vec<&str>| {
        let mut options: Options = support::options();
        for (key, value) in settings.iter().map(|line| line.split_once('=').unwrap()) {
            options.put(key, value).unwrap();
        }
        options
    };
    let head = parts.next().unwrap();
    let path = model(lines(head, "model")[0]);
    let engine = Engine::open_with(&path, &with(lines(head, "engine"))).unwrap();
    let tokenizer = Tokenizer::open(&path).unwrap();
    let mut tasks = 0;
    for part in parts {
        let name = part.lines().next().unwrap();
        let numbers = |word: &str, radix| -> Vec<i64> {
            let all = lines(part, word);
            let number = |n| i64::from_str_radix(n, radix).unwrap();
            all.iter()
                .flat_map(|line| line.split(' '))
                .map(number)
                .collect()
        };
        let options = with(lines(part, "option"));
        let mut builder = Task::builder(&engine, &tokenizer, kind(name), Some(&options)).unwrap();
        let labels = lines(part, "label");
        if !labels.is_empty() {
            builder.set_labels(&labels).unwrap();
        }
        builder.add(&lines(part, "text")).unwrap();
        let tokens: Vec<i64> = builder
            .tokens(0)
            .unwrap()
            .into_iter()
            .map(i64::from)
            .collect();
        assert_eq!(tokens, numbers("tokens", 10), "tokens of {name}");
        let task = builder.submit().unwrap();
        task.wait().unwrap();
        let statuses = task.statuses().unwrap();
        let codes: Vec<i64> = statuses.iter().map(|s| s.code().into()).collect();
        assert_eq!(codes, numbers("statuses", 10), "statuses of {name}");
        let values = bits(task.all_values().unwrap().as_slice());
        let values: Vec<i64> = values.into_iter().map(i64::from).collect();
        assert_eq!(values, numbers("bits", 16), "values of {name}");
        let written = lines(part, "written");
        assert_ne!(written.is_empty(), values.is_empty(), "{name}");
        for (item, text) in written.iter().enumerate() {
            assert_eq!(&task.text(item).unwrap(), text, "text of {name}");
        }
        tasks += 1;
    }
    assert!(tasks >= 5);
}
