//! Templates, files and texts that mean harm: each ends with a status and a message, in bounded time
//! and memory. The tests run one after the other, so that memory can be measured.

mod support;

use serde_json::{json, Value};
use std::time::Duration;
use support::capi::*;
use support::runner::{main as run, Skip};
use support::strings::Stream;
use support::{fixture, gguf, memory, Scratch};

const MB: usize = 1 << 20;
/// Processor time, of a slow processor.
const SLOWEST: Duration = Duration::from_secs(10);

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
fn measured<T>(body: impl FnOnce() -> T) -> (T, Duration, usize) {
    memory::reset_peak();
    let before = memory::resident();
    let begin = processor_time();
    let result = body();
    let took = processor_time() - begin;
    (result, took, memory::peak().saturating_sub(before))
}

const ONE: &str = r#"[{"role": "user", "content": "hello"}]"#;

/// A template in which BIG is a text of 8 MB and N grows things for as long as it may.
fn expand(template: &str) -> String {
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
fn too_much(template: &str) {
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
fn bounded(template: &str) {
    let tokenizer = Tokenizer::with_template(template).unwrap();
    let (result, took, grew) = measured(|| tokenizer.chat_text(ONE, ""));
    let shown: String = template.chars().take(200).collect();
    if let Err(e) = result {
        assert_ne!(e.code, 1000, "{shown}\n  {}", e.message);
    }
    assert!(took < SLOWEST, "{shown}\n  took {took:?}");
    assert!(grew < 700 * MB, "{shown}\n  took {} MB", grew / MB);
}

fn loops() {
    for template in [
        "{% for i in range(10**9) %}x{% endfor %}",
        "{% for i in range(0 - 10**18, 10**18, 3) %}x{% endfor %}",
        "REPEATREPEATxENDEND",
        "REPEATREPEAT{% set x = i %}ENDEND",
        "REPEAT{{ 'x' * 1000 }}END",
        "REPEATREPEAT{% macro m() %}{% endmacro %}ENDEND",
        "{% for a in big %}REPEAT{% endfor %}END",
        "{% for a in range(90000) if a > 1 %}{% for b in range(90000) if b > 1 %}{% endfor %}{% endfor %}",
    ] {
        too_much(&expand(template));
    }
}

fn growing_texts() {
    for growth in [
        "ns.s ~ ns.s",
        "ns.s + ns.s",
        "ns.s * 2",
        "2 * ns.s",
        "[ns.s, ns.s] | join",
        "[ns.s, ns.s] | join(ns.s)",
        "ns.s.join(['a', 'b', 'c'])",
        "'%s%s' % (ns.s, ns.s)",
        "'%s%s' | format(ns.s, ns.s)",
        "'{}{}'.format(ns.s, ns.s)",
        "'{0}{0}{0}'.format(ns.s)",
        "ns.s | replace('x', 'xx')",
        "ns.s.replace('x', ns.s)",
        "ns.s.replace('', 'yy')",
        "ns.s | indent(1000, true) ~ '\\n' ~ ns.s",
        "[ns.s, ns.s] | string",
        "[ns.s, ns.s] | tojson",
        "{'a': ns.s, 'b': ns.s} | tojson(indent=4)",
        "ns.s.center(10 ** 9)",
        "(ns.s ~ 'ß') | upper ~ ns.s",
        "ns.s | e ~ '<' ~ ns.s",
        "ns.s | truncate(10 ** 9, true, ns.s) ~ ns.s",
        "ns.s[::-1] + ns.s",
    ] {
        too_much(&expand(&format!(
            "REPEAT{{% set ns.s = {growth} %}}END{{{{ ns.s }}}}"
        )));
    }
    too_much(&expand(
        "REPEAT{% set s %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = s %}END",
    ));
    too_much(&expand(
        "REPEAT{% filter upper %}{{ big }}{% endfilter %}END",
    ));
}

fn growing_lists() {
    for growth in [
        "ns.l + ns.l",
        "ns.l * 2",
        "[ns.l, ns.l]",
        "{'a': ns.l, 'b': ns.l}",
        "[ns.l]",
        "{'a': ns.l}.items()",
        "{'a': ns.l}.values()",
        "dict(a=ns.l)",
        "dict([['a', ns.l]])",
        "[ns.l] | batch(1) | list",
        "[ns.l] | list",
        "[[ns.l, ns.l], [ns.l, ns.l]] | map('list') | list",
        "[ns.l, ns.l] | sum(start=[])",
        "ns.l + ['x' * 8000000]",
        "ns.l + [big | list]",
        "ns.l + [big.split('x')]",
        "ns.l + [range(90000) | list]",
        "ns.l + [messages * 1000]",
    ] {
        too_much(&expand(&format!(
            "REPEAT{{% set ns.l = {growth} %}}END{{{{ ns.l }}}}"
        )));
    }
}

fn single_expressions() {
    for expression in [
        "'x' * 10 ** 12",
        "10 ** 12 * 'x'",
        "[0] * 10 ** 9",
        "(0,) * 10 ** 9",
        "range(10 ** 9) | list",
        "range(90000) | map('string') | map('center', 10 ** 6) | list",
        "([big] * 1000) | map('upper') | list | length",
        "([big] * 1000) | map('tojson') | list | length",
        "([big] * 1000) | map('replace', 'x', 'yy') | list | length",
        "([big] * 1000) | map('list') | list | length",
        "([big] * 1000) | map('trim') | list | length",
        "([big] * 1000) | map('e') | list | length",
        "([big] * 1000) | map('length') | list",
        "([big] * 1000) | map('format', big) | list | length",
        "([big] * 1000) | join | length",
        "([big] * 1000) | select('lower') | list | length",
        "([big] * 1000) | select('in', [big ~ 'y']) | list | length",
        "([big] * 1000) | unique | list | length",
        "([big] * 1000) | sort | length",
        "([big] * 1000) | string | length",
        "([big] * 1000) | tojson | length",
        "range(90000) | list | tojson(indent=big)",
        "range(90000) | list | tojson(separators=[big, ':']) | length",
        "'a\\nb' | indent(10 ** 9)",
        "([1] * 1000000) | map('indent', 10 ** 9) | list",
        "[1] | batch(10 ** 9, 0) | list",
        "[1] | slice(10 ** 9) | list",
        "([{'a': 1}] * 90000) | map(attribute=big) | list | length",
        "([{'a': 1}] * 90000) | selectattr(big) | list | length",
        "([{'a': 1}] * 90000) | groupby(big) | length",
        "'a'.center(10 ** 12)",
        "'a'.ljust(10 ** 12)",
        "'a'.zfill(10 ** 12)",
        "('\\t' * 1000000).expandtabs(10 ** 9)",
        "'a' | center(10 ** 12)",
        "big | list | map('string') | sort | list | length",
    ] {
        too_much(&expand(&format!("{{{{ {expression} }}}}")));
    }
    for expression in [
        "'%999999999d' % 1",
        "'%*d' % (999999999, 1)",
        "'%.999999999f' % 1.5",
        "'{:999999999}'.format(1)",
        "'{:>{w}}'.format('a', w=999999999)",
        "'{:.999999999f}'.format(1.5)",
        "10 ** 10 ** 10",
        "2 ** 127 * 2 ** 127 * 2 ** 127",
        "('9' * 1000000) | int",
        "('9' * 1000000) | float",
        "1.5 | round(10 ** 9)",
        "1.5 | round(-10 ** 9)",
        "strftime_now('%Y' * 1000000)",
        "raise_exception(big)",
        "big | int",
        "big | title",
        "big | tojson(ensure_ascii=true) | length",
        "big | wordcount",
        "sum([1])",
        "range(0, 1, 0)",
        "range(9223372036854775807, -9223372036854775807, -9223372036854775807) | list",
        "big[-9223372036854775807:9223372036854775807:9223372036854775807]",
        "big[::-9223372036854775807]",
        "''[::-1]",
        "[][::-1]",
        "'abc'[5:0:-1]",
        "'abc'[0:2:-1]",
        "[1, 2, 3][0:2:-1]",
        "(-9223372036854775807 - 1) // -1",
        "(-9223372036854775807 - 1) % -1",
        "-(-9223372036854775807 - 1)",
        "(-9223372036854775807 - 1) | abs",
        "1e308 * 10",
        "(1e308 * 10) | int",
        "(1e308 * 10 - 1e308 * 10) | int",
        "[1e308 * 10] | tojson",
        "1 // 0",
        "1 % 0",
        "0 ** -1",
        "[1, 'a', none, {}, []] | sort",
        "[{}, {}] | unique | list",
        "{[1]: 2}",
        "{{}: 1}",
        "ns",
        "namespace(a=ns)",
        "loop",
        "self",
        "caller()",
        "messages.append(1)",
        "cycler.__class__",
        "''.__class__.__mro__",
    ] {
        bounded(&expand(&format!("{{{{ {expression} }}}}")));
    }
}

/// Cheap to write, dear to compute, many times over.
fn slow_steps() {
    for step in [
        "{% if 'y' in big %}{% endif %}",
        "{% if big == big ~ '' %}{% endif %}",
        "{% if big < big %}{% endif %}",
        "{% if big[4000000] %}{% endif %}",
        "{% if big[1:] %}{% endif %}",
        "{% if big | length %}{% endif %}",
        "{% if big | trim %}{% endif %}",
        "{% if big | first %}{% endif %}{% if big | last %}{% endif %}{% if big | reverse %}{% endif %}",
        "{% if big is lower %}{% endif %}{% if big | lower %}{% endif %}",
        "{% if big is eq(big) %}{% endif %}",
        "{% if big is in(big) %}{% endif %}",
        "{% if big.find('y') %}{% endif %}",
        "{% if big.count('y') %}{% endif %}",
        "{% if big.startswith(big) %}{% endif %}",
        "{% if big.upper() %}{% endif %}",
        "{% if big.isdigit() %}{% endif %}",
        "{% if big.strip('x') %}{% endif %}",
        "{% if big.split('y') %}{% endif %}",
        "{% if big.splitlines() %}{% endif %}",
        "{% if big.format() %}{% endif %}",
        "{% if ns.m[big] %}{% endif %}",
        "{% if ns.m.get(big) %}{% endif %}",
        "{% if {big: 1} %}{% endif %}",
        "{% if dict([[big, 1]]) %}{% endif %}",
        "{% if big | int %}{% endif %}",
        "{% if strftime_now(big) %}{% endif %}",
        "{% if '%s' % big %}{% endif %}",
        "{% if big | string | tojson %}{% endif %}",
        "{% if ns.l is none %}{% endif %}{% if big is divisibleby(3) %}{% endif %}{% if big is startingwith(big) %}{% endif %}",
        "{% if [big] == [big ~ ''] %}{% endif %}",
        "{% if ns.l.index(3) %}{% endif %}",
    ] {
        let with_data = "{% set ns.m = {big: 1} %}{% set ns.l = ([0] * 90000) + [3] %}";
        bounded(&expand(&format!("{with_data}REPEAT{step}END")));
    }
    // A value that looks small and is large when it is compared.
    let wide = "{% for i in range(18) %}{% set ns.l = [ns.l, ns.l] %}END{% set ns.m = [ns.l] %}";
    for step in [
        "{% if ns.l == ns.m %}{% endif %}",
        "{% if [ns.l, ns.m] | select('eq', ns.l) | list %}{% endif %}",
        "{% if ns.l | tojson %}{% endif %}",
    ] {
        too_much(&expand(&format!("{wide}REPEAT{step}END")));
    }
}

fn deep_code() {
    let deep = |open: &str, middle: &str, close: &str, n: usize| {
        format!("{}{middle}{}", open.repeat(n), close.repeat(n))
    };
    let n = 20_000;
    for template in [
        format!("{{{{ {} }}}}", deep("(", "1", ")", n)),
        format!("{{{{ {} }}}}", deep("[", "1", "]", n)),
        format!("{{{{ {} }}}}", deep("{1:", "1", "}", n)),
        format!("{{{{ {} }}}}", deep("not ", "1", "", n)),
        format!("{{{{ {} }}}}", deep("- ", "1", "", n)),
        format!("{{{{ {} }}}}", deep("a(", "1", ")", n)),
        format!("{{{{ {} }}}}", deep("a[", "1", "]", n)),
        format!("{{{{ a{} }}}}", ".a".repeat(n)),
        format!("{{{{ a{} }}}}", "[0]".repeat(n)),
        format!("{{{{ a{} }}}}", "()".repeat(n)),
        format!("{{{{ a{} }}}}", "|upper".repeat(n)),
        format!("{{{{ a{} }}}}", " ~ a".repeat(n)),
        format!("{{{{ a{} }}}}", " + a".repeat(n)),
        format!("{{{{ a{} }}}}", " and a".repeat(n)),
        format!("{{{{ a{} }}}}", " < a".repeat(n)),
        format!("{{{{ a{} }}}}", " ** a".repeat(n)),
        format!("{{{{ a{} }}}}", " if a else a".repeat(n)),
        format!("{{{{ a{} }}}}", " is defined".repeat(n)),
        deep("{%if 1%}", "x", "{%endif%}", 12_000),
        deep("{%for a in [1]%}", "x", "{%endfor%}", 9_000),
        deep("{%with%}", "x", "{%endwith%}", 12_000),
        deep("{%macro m()%}", "x", "{%endmacro%}", 9_000),
        deep("{%filter upper%}", "x", "{%endfilter%}", 7_000),
        deep("{%set a%}", "x", "{%endset%}", 12_000),
        format!("{{%if 1%}}{}{{%endif%}}", "{%elif 1%}".repeat(20_000)),
        "{{".repeat(100_000),
        "{%".repeat(100_000),
        "{#".repeat(100_000),
        "{{ '".to_string() + &"\\".repeat(200_000),
        "{{ ".to_string() + &"9".repeat(200_000) + " }}",
        "{{ 1".to_string() + &"0".repeat(1000) + "e99999 }}",
        "{{ ".to_string() + &"a".repeat(200_000) + " }}",
        "{{ x }}".repeat(30_000),
        format!("{{{{ [{}] }}}}", "1,".repeat(100_000)),
        format!("{{{{ f({}) }}}}", "1,".repeat(100_000)),
        format!("{{% set {} = 1 %}}", "a,".repeat(80_000)),
    ] {
        bounded(&template);
    }
    let tokenizer = Tokenizer::with_template(&"x".repeat(300 << 10)).unwrap();
    assert_eq!(tokenizer.chat_text(ONE, "").unwrap_err().code, OUT_OF_RANGE);
}

fn recursion() {
    for template in [
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
        "{% macro m(f) %}{{ f(f) }}{% endmacro %}{{ m(m) }}",
        "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% for a in [1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
        "{% for a in [1, 2] recursive %}{{ loop([1, 2]) }}{{ loop([1, 2]) }}{% endfor %}",
    ] {
        too_much(template);
    }
    for template in [
        "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{% call m() %}{% endcall %}",
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.x = {'a': ns} %}{{ ns | tojson }}",
        "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{{ a }}",
        "{% set a = namespace() %}{% set b = dict(a=a) %}{% set a.b = b %}{{ b }}",
        "{% set a = namespace() %}{% set a.x = dict(y=a).items() %}{{ a.x }}",
        "{% set a = namespace() %}{% set a.x = [a] | map('list') %}{{ a.x }}",
    ] {
        bounded(template);
    }
}

/// Finding where turns end renders again for each message: all of it has one budget.
fn many_turns() {
    let messages: Vec<Value> = (0..1000)
        .map(|_| json!({"role": "user", "content": "x"}))
        .collect();
    let messages = Value::from(messages).to_string();
    for template in [
        "{% for i in range(60000) %}{% for j in range(10) %}{% set x = i %}{% endfor %}{% endfor %}",
        "{% for i in range(9) %}{% set x = 'x' * 10000000 %}{% endfor %}",
    ] {
        let tokenizer = Tokenizer::with_template(template).unwrap();
        let (result, took, grew) = measured(|| tokenizer.chat_tokens(&messages, "", 1000));
        assert_eq!(result.unwrap_err().code, OUT_OF_RANGE, "{template}");
        assert!(took < 2 * SLOWEST, "{template} took {took:?}");
        assert!(grew < 1500 * MB, "{template} took {} MB", grew / MB);
    }
}

/// Opens what may be a tokenizer; what opens must also work.
fn open_or_refuse(json: &[u8]) -> bool {
    match Tokenizer::from_json(json, b"") {
        Ok(tokenizer) => {
            for flags in [0, 1, 2] {
                if let Ok(ids) = tokenizer.encode("Hello, naïve wörld 12 <s>".as_bytes(), flags) {
                    let _ = tokenizer.decode(&ids, 0);
                }
            }
            let last = tokenizer.vocab_size() - 1;
            let _ = tokenizer.decode(&[0, last as i32], 1);
            true
        }
        Err(e) => {
            let codes = [FORMAT, UNSUPPORTED_MODEL, INVALID_UTF8]; // cut inside a character
            assert!(codes.contains(&e.code), "{e:?}");
            false
        }
    }
}

/// Every place in a JSON value, but only some of long lists.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_string());
    match value {
        Value::Object(map) => {
            let step = map.len() / 6 + 1;
            for key in map
                .keys()
                .enumerate()
                .filter(|(i, _)| map.len() < 30 || i % step == 0)
                .map(|(_, k)| k)
            {
                let key_at = key.replace('~', "~0").replace('/', "~1");
                places(&value[key], &format!("{at}/{key_at}"), found);
            }
        }
        Value::Array(list) => {
            let step = list.len() / 4 + 1;
            for i in (0..list.len()).step_by(step) {
                places(&list[i], &format!("{at}/{i}"), found);
            }
        }
        _ => {}
    }
}

fn malformed_tokenizers() {
    let (mut opened, mut refused) = (0, 0);
    let mut count = |ok: bool| if ok { opened += 1 } else { refused += 1 };
    for name in ["llama3", "roberta", "llama2", "unigram", "wordpiece"] {
        let text = fixture(name);
        for at in (0..text.len()).step_by(text.len() / 40) {
            count(open_or_refuse(&text.as_bytes()[..at]));
        }
        let whole: Value = serde_json::from_str(&text).unwrap();
        let mut all = Vec::new();
        places(&whole, "", &mut all);
        for at in &all {
            for other in [
                Value::Null,
                json!(-1),
                json!(1e300),
                json!("x"),
                json!([]),
                json!({}),
                json!([["a", 1], ["b"]]),
            ] {
                let mut changed = whole.clone();
                *changed.pointer_mut(at).unwrap() = other;
                count(open_or_refuse(changed.to_string().as_bytes()));
            }
        }
    }
    assert!(
        opened > 100 && refused > 1000,
        "{opened} opened, {refused} refused"
    );
}

fn odd_json() {
    let text = fixture("llama3");
    for json in [
        "".to_string(),
        "null".to_string(),
        "[]".to_string(),
        "{}".to_string(),
        "{\"version\": \"1.0\"}".to_string(),
        "\u{feff}".to_string() + &text,
        text.clone() + "{}",
        text.clone() + "\0",
        "[".repeat(1_000_000),
        "{\"a\":".repeat(1_000_000),
        text.replacen(
            "\"model\":",
            &format!(
                "\"x\":{}{},\"model\":",
                "[".repeat(100_000),
                "]".repeat(100_000)
            ),
            1,
        ),
        text.replacen(
            "\"normalizer\":null",
            &format!(
                "\"normalizer\":{}",
                "{\"type\":\"Sequence\",\"normalizers\":[".repeat(5000)
            ),
            1,
        ),
    ] {
        let (result, took, grew) =
            measured(|| Tokenizer::from_json(json.as_bytes(), b"").map(drop));
        let error = result.unwrap_err();
        assert_eq!(error.code, FORMAT, "{}", error.message);
        assert!(
            took < SLOWEST && grew < 300 * MB,
            "{took:?}, {} MB",
            grew / MB
        );
    }
    // Twice the same key, twice the same token, an id twice: any answer but a crash.
    for json in [
        text.replacen(
            "\"version\":\"1.0\"",
            "\"version\":\"1.0\",\"version\":\"1.0\"",
            1,
        ),
        text.replacen("\"vocab\":{", "\"vocab\":{},\"vocab\":{", 1),
        text.replacen("\"vocab\":{", "\"vocab\":{\"!\":5,\"!\":6,", 1),
        text.replacen("\"vocab\":{", "\"vocab\":{\"zz\":4294967295,", 1),
        text.replacen("\"vocab\":{", "\"vocab\":{\"zz\":2147483647,", 1),
        text.replacen("\"vocab\":{", "\"vocab\":{\"zz\":99999999999,", 1),
        text.replacen("\"merges\":[", "\"merges\":[[\"!\",\"no such token\"],", 1),
        text.replacen("\"merges\":[", "\"merges\":[\"a b c\",", 1),
        text.replacen("\"dropout\":null", "\"dropout\":1.0", 1),
        text.replacen("\"dropout\":null", "\"dropout\":0.5", 1),
        text.replacen("\\\\p{N}{1,3}", "\\\\p{N}{1,99999999}", 1),
        text.replacen(
            "\\\\p{N}{1,3}",
            "(((((a{1,200}){1,200}){1,200}){1,200}){1,200})",
            1,
        ),
        text.replacen("\\\\p{N}{1,3}", "(", 1),
    ] {
        assert_ne!(json, text);
        let (_, took, grew) = measured(|| open_or_refuse(json.as_bytes()));
        assert!(
            took < SLOWEST && grew < 300 * MB,
            "{took:?}, {} MB",
            grew / MB
        );
    }
    for config in [
        "",
        "[]",
        "5",
        "{",
        "{\"chat_template\": 5}",
        "{\"chat_template\": [5]}",
        "{\"chat_template\": [{\"name\": \"x\"}]}",
    ] {
        if !config.is_empty() {
            let error = Tokenizer::from_json(text.as_bytes(), config.as_bytes())
                .map(drop)
                .unwrap_err();
            assert_eq!(error.code, FORMAT, "{config}");
        }
    }
    for config in [
        "{\"eos_token\": {\"content\": 5}}",
        "{\"eos_token\": \"no such token\"}",
        "{\"_token\": \"<think>\"}",
    ] {
        Tokenizer::from_json(text.as_bytes(), config.as_bytes()).unwrap();
    }
}

fn malformed_gguf() {
    let scratch = Scratch::new("bad-gguf");
    let whole: Value = serde_json::from_str(&fixture("llama3")).unwrap();
    let bos = whole["added_tokens"][0]["id"].as_u64().unwrap() as u32;
    let good = || gguf::from_tokenizer_json(&whole, "llama-bpe");
    let file = good().u32("tokenizer.ggml.bos_token_id", bos).file();
    Tokenizer::open(&scratch.write("good.gguf", &file)).unwrap();

    let open = |bytes: &[u8]| {
        let (result, took, grew) =
            measured(|| Tokenizer::open(&scratch.write("x.gguf", bytes)).map(drop));
        assert!(
            took < SLOWEST && grew < 300 * MB,
            "{took:?}, {} MB",
            grew / MB
        );
        if let Err(e) = &result {
            assert!(
                [FORMAT, UNSUPPORTED_MODEL, NOT_FOUND].contains(&e.code),
                "{e:?}"
            );
        }
        result
    };
    let mut stream = Stream::new("gguf");
    for _ in 0..150 {
        open(&file[..stream.below(file.len())]).unwrap_err();
    }
    for _ in 0..600 {
        let mut changed = file.clone();
        for _ in 0..=stream.below(4) {
            let near = stream.below(2) == 0;
            let at = stream.below(if near { 400 } else { file.len() });
            changed[at] = [0, 1, 0x7f, 0x80, 0xff, 8, 9][stream.below(7)];
        }
        let _ = open(&changed);
    }
    let huge = u64::MAX.to_le_bytes();
    for (bytes, code) in [
        (gguf::Writer::default().file(), NOT_FOUND),
        (good().raw("tokenizer.ggml.added", 8, &huge).file(), FORMAT),
        (good().raw("x", 8, &huge).file(), FORMAT),
        (
            good()
                .raw("x", 9, &[&4u32.to_le_bytes()[..], &huge].concat())
                .file(),
            FORMAT,
        ),
        (
            good()
                .raw("x", 9, &[&8u32.to_le_bytes()[..], &huge].concat())
                .file(),
            FORMAT,
        ),
        (
            good()
                .raw(
                    "x",
                    9,
                    &[&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat(),
                )
                .file(),
            FORMAT,
        ),
        (good().raw("x", 99, &[]).file(), FORMAT),
        (good().text("tokenizer.ggml.pre", "qwen2").file(), FORMAT),
        (
            good().text("tokenizer.ggml.bos_token_id", "1").file(),
            FORMAT,
        ),
        (
            good().u32("tokenizer.ggml.bos_token_id", 1 << 30).file(),
            FORMAT,
        ),
        (
            good()
                .bool("tokenizer.ggml.add_eos_token", true)
                .u32("tokenizer.ggml.bos_token_id", bos)
                .file(),
            FORMAT,
        ),
        (
            good().text("tokenizer.ggml.add_bos_token", "x").file(),
            FORMAT,
        ),
        (good().u32("tokenizer.chat_template", 5).file(), FORMAT),
        (
            gguf::from_tokenizer_json(&whole, "llama-pbe").file(),
            UNSUPPORTED_MODEL,
        ),
        (
            gguf::from_tokenizer_json(&whole, "").file(),
            UNSUPPORTED_MODEL,
        ),
        (
            gguf::Writer::default()
                .text("tokenizer.ggml.model", "llama")
                .file(),
            UNSUPPORTED_MODEL,
        ),
        (
            gguf::Writer::default()
                .text("tokenizer.ggml.model", "none")
                .file(),
            UNSUPPORTED_MODEL,
        ),
        (
            gguf::Writer::default()
                .text("tokenizer.ggml.model", "gpt2")
                .file(),
            UNSUPPORTED_MODEL,
        ),
        (
            gguf::Writer::default()
                .text("tokenizer.ggml.model", "gpt2")
                .text("tokenizer.ggml.pre", "gpt-2")
                .file(),
            FORMAT,
        ),
        (
            gguf::Writer::default()
                .text("tokenizer.ggml.model", "gpt2")
                .text("tokenizer.ggml.pre", "gpt-2")
                .texts("tokenizer.ggml.tokens", &["a", "a"])
                .texts("tokenizer.ggml.merges", &[""; 0])
                .file(),
            FORMAT,
        ),
        (
            gguf::Writer::default()
                .text("tokenizer.ggml.model", "gpt2")
                .text("tokenizer.ggml.pre", "gpt-2")
                .texts("tokenizer.ggml.tokens", &["a", "b"])
                .texts("tokenizer.ggml.merges", &["a  b"])
                .file(),
            FORMAT,
        ),
        (b"GGUF".to_vec(), FORMAT),
        (b"GGUF\x01\0\0\0".to_vec(), UNSUPPORTED_MODEL),
        (b"GGUF\0\0\0\x03".to_vec(), UNSUPPORTED_MODEL),
    ] {
        assert_eq!(open(&bytes).unwrap_err().code, code);
    }
}

fn hundred_megabytes() {
    let tokenizer = Tokenizer::with_template("{{ messages[0].content }}").unwrap();
    let text = vec![b'a'; 100 * MB];
    let tokens = vec![5i32; 100 * MB / 4];
    let messages = format!(
        r#"[{{"role": "user", "content": "{}"}}]"#,
        "a".repeat(100 * MB)
    );
    let refused = |what: &str, body: &dyn Fn() -> i32, wanted: i32| {
        let (code, took, grew) = measured(body);
        assert_eq!(code, wanted, "{what}");
        assert!(
            took < SLOWEST && grew < 250 * MB,
            "{what}: {took:?}, {} MB",
            grew / MB
        );
    };
    refused(
        "encode",
        &|| tokenizer.encode(&text, 0).unwrap_err().code,
        OUT_OF_RANGE,
    );
    refused(
        "decode",
        &|| tokenizer.decode(&tokens, 0).unwrap_err().code,
        OUT_OF_RANGE,
    );
    refused(
        "messages",
        &|| tokenizer.chat_text(&messages, "").unwrap_err().code,
        OUT_OF_RANGE,
    );
    refused(
        "options",
        &|| tokenizer.chat_text(ONE, &messages).unwrap_err().code,
        OUT_OF_RANGE,
    );
    refused(
        "json",
        &|| Tokenizer::from_json(&text, b"").map(drop).unwrap_err().code,
        FORMAT,
    );
    refused(
        "config",
        &|| {
            Tokenizer::from_json(fixture("llama2").as_bytes(), &text)
                .map(drop)
                .unwrap_err()
                .code
        },
        FORMAT,
    );
    let path = std::str::from_utf8(&text).unwrap();
    refused(
        "path",
        &|| Tokenizer::open(path).map(drop).unwrap_err().code,
        support::capi::IO,
    );
    refused(
        "file",
        &|| {
            let scratch = Scratch::new("large");
            Tokenizer::open(&scratch.write("tokenizer.json", &text))
                .map(drop)
                .unwrap_err()
                .code
        },
        FORMAT,
    );
}

/// The longest text that is taken: one word, one kind of space, one kind of digit.
fn longest_text() {
    for (name, piece) in [
        ("llama3", "a"),
        ("llama2", " "),
        ("llama3", "é"),
        ("llama2", "a "),
        ("unigram", "ab "),
        ("wordpiece", "a"),
    ] {
        let tokenizer = Tokenizer::from_json(fixture(name).as_bytes(), b"").unwrap();
        let text = piece.repeat(MB / piece.len());
        let (ids, took, grew) = measured(|| tokenizer.encode(text.as_bytes(), 0).unwrap());
        assert!(!ids.is_empty());
        assert!(
            took < SLOWEST && grew < 500 * MB,
            "{name} {piece:?}: {took:?}, {} MB",
            grew / MB
        );
    }
}

/// The engine of regexes gives up on a million characters of white space and says so nowhere.
fn long_white_space() {
    let tokenizer = Tokenizer::from_json(fixture("llama3").as_bytes(), b"").unwrap();
    for space in [" ", "\u{3000}"] {
        let text = space.repeat(999_000) + "x";
        let before = text.len() - 1 - space.len();
        // The last space goes with the word.
        let mut wanted = tokenizer.encode(&text.as_bytes()[..before], 0).unwrap();
        wanted.extend(tokenizer.encode(&text.as_bytes()[before..], 0).unwrap());
        assert_eq!(tokenizer.encode(text.as_bytes(), 0).unwrap(), wanted);
        let error = tokenizer
            .encode((space.repeat(999_001) + "x").as_bytes(), 0)
            .unwrap_err();
        assert_eq!(error.code, OUT_OF_RANGE);
        assert!(error.message.contains("999001"), "{}", error.message);
    }
}

fn invalid_utf8() {
    let tokenizer = Tokenizer::with_template("{{ messages[0].content }}").unwrap();
    for (bytes, at, byte) in [
        (&b"ab\xffcd"[..], 2, "0xff"),
        (b"\x80", 0, "0x80"),
        ("é\u{20ac}".as_bytes().split_at(3).0, 2, "0xe2"),
        (b"a\xc0\x80", 1, "0xc0"),
        (b"a\xed\xa0\x80", 1, "0xed"),
        (b"\xf4\x90\x80\x80", 0, "0xf4"),
    ] {
        let error = tokenizer.encode(bytes, 0).unwrap_err();
        assert_eq!(error.code, INVALID_UTF8);
        assert!(
            error.message.contains(byte) && error.message.contains(&format!("{at}")),
            "{}",
            error.message
        );
        assert_eq!(
            tokenizer.encode_offsets(bytes, 0).unwrap_err().code,
            INVALID_UTF8
        );
        assert_eq!(
            Tokenizer::from_json(bytes, b"").map(drop).unwrap_err().code,
            INVALID_UTF8
        );
        assert_eq!(
            Tokenizer::from_json(b"{}", bytes)
                .map(drop)
                .unwrap_err()
                .code,
            INVALID_UTF8
        );
    }
}

fn main() {
    let nothing = || Skip::No;
    run(&[
        ("loops", nothing, loops),
        ("growing_texts", nothing, growing_texts),
        ("growing_lists", nothing, growing_lists),
        ("single_expressions", nothing, single_expressions),
        ("slow_steps", nothing, slow_steps),
        ("deep_code", nothing, deep_code),
        ("recursion", nothing, recursion),
        ("many_turns", nothing, many_turns),
        ("malformed_tokenizers", nothing, malformed_tokenizers),
        ("odd_json", nothing, odd_json),
        ("malformed_gguf", nothing, malformed_gguf),
        ("hundred_megabytes", nothing, hundred_megabytes),
        ("longest_text", nothing, longest_text),
        ("long_white_space", nothing, long_white_space),
        ("invalid_utf8", nothing, invalid_utf8),
    ]);
}
