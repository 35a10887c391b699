//! Templates that mean harm.

use crate::bounds::{bounded, expand, measured, too_much, MB, ONE, SLOWEST};
use crate::support::capi::*;
use serde_json::{json, Value};

pub fn loops() {
    for template in [
        "{% for i in range(10**9) %}x{% endfor %}",
        "{% for i in range(0 - 10**18, 10**18, 3) %}x{% endfor %}",
        "REPEATREPEATxENDEND",
        "REPEATREPEAT{% set x = i %}ENDEND",
        "REPEAT{{ 'x' * 1000 }}END",
        "{% set r = range(90000) %}REPEATREPEAT{% if r[1:] %}{% endif %}ENDEND",
        "REPEATREPEAT{% macro m() %}{% endmacro %}ENDEND",
        "{% for a in big %}REPEAT{% endfor %}END",
        "{% for a in range(90000) if a > 1 %}{% for b in range(90000) if b > 1 %}{% endfor %}{% endfor %}",
    ] {
        too_much(&expand(template));
    }
}

pub fn growing_texts() {
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

pub fn growing_lists() {
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

pub fn single_expressions() {
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
        "strftime_now('%c' * 600000)",
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
pub fn slow_steps() {
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
        "{% if (big | safe) + '<' %}{% endif %}",
        "{% set ns.j = joiner(big) %}{% if ns.j() == ns.j() %}{% endif %}",
        "{% set ns.c = cycler(*big) %}{% if ns.c.items %}{{ ns.c.next() }}{% endif %}",
        "{% if big.find('y') %}{% endif %}",
        "{% if big.count('y') %}{% endif %}",
        "{% if big.count('y', 1, -1) %}{% endif %}",
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
        "{% if ns.m[ns.l] %}{% endif %}",
        "{% if ns.m.get(ns.l) %}{% endif %}",
        "{% if pairs | last %}{% endif %}",
        "{% if back[89999] %}{% endif %}",
        "{% if (pairs | items)[1:] %}{% endif %}",
    ] {
        let with_data = "{% set ns.m = {big: 1} %}{% set ns.l = ([0] * 90000) + [3] %}\
            {% set pairs = dict(range(90000) | batch(2)) %}{% set back = range(90000) | reverse %}";
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

pub fn deep_code() {
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

pub fn recursion() {
    for template in [
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
        "{% macro m(f) %}{{ f(f) }}{% endmacro %}{{ m(m) }}",
        "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% for a in [1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
        "{% for a in [1, 2] recursive %}{{ loop([1, 2]) }}{{ loop([1, 2]) }}{% endfor %}",
        "{% set ns = namespace(x=1) %}{% for i in range(90000) %}{% set ns.x = {ns.x: 1} %}{% endfor %}",
    ] {
        too_much(template);
    }
    for template in [
        "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{% call m() %}{% endcall %}",
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.x = {ns: 1} %}{{ ns.x }}",
        "{% set ns = namespace() %}{% set ns.x = {ns: 1} %}{% set ns.y = {ns: 1} %}",
        "{% set ns = namespace() %}{% set ns.x = {'a': {'b': ns}.get} %}{{ ns.x }}",
        "{% set ns = namespace() %}{% set ns.x = {'a': ns} %}{{ ns | tojson }}",
        "{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}{{ a }}",
        "{% set a = namespace() %}{% set b = dict(a=a) %}{% set a.b = b %}{{ b }}",
        "{% set a = namespace() %}{% set a.x = dict(y=a).items() %}{{ a.x }}",
        "{% set a = namespace() %}{% set a.x = [a] | map('list') %}{{ a.x }}",
        "{% set ns = namespace(c=1) %}{% for i in range(9) %}{% for j in range(90000) %}{% set ns.c = cycler(ns.c) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(c=1) %}{% for i in range(90000) %}{% set ns.c = cycler([ns.c]) %}{% endfor %}",
        "{% set ns = namespace() %}{% set ns.c = cycler(ns) %}{{ ns.c }}",
        "{% set ns = namespace() %}{% for i in range(90000) %}{% set ns.j = joiner(ns.j) %}{{ ns.j() }}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% set j = joiner('x' * 8000000) %}REPEAT{% set ns.l = ns.l + [j()] %}END",
    ] {
        bounded(template);
    }
}

/// Finding where turns end renders again for each message: all of it has one budget.
pub fn many_turns() {
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
