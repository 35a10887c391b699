//! What answers say besides what was asked: the name of the request, and who may read them.

use serde_json::json;

use crate::support::{start, Answer, Service};

#[test]
fn every_answer_has_the_name_of_its_request() {
    let service = start(|config| config.keys = Some(["one".to_string()].into()));
    let mut names = Vec::new();
    for (path, code) in [("/health", 200), ("/v1/models", 401), ("/nowhere", 404)] {
        let answer = service.get(path);
        assert_eq!(answer.code, code);
        let name = answer.headers.split("\r\nx-request-id: ").nth(1).unwrap();
        let name = name.split('\r').next().unwrap().to_string();
        assert!(name.starts_with("req-"), "{name}");
        assert!(!names.contains(&name), "{name}");
        names.push(name);
        let own = [("x-request-id", "of/a.proxy-1")];
        let answer = service.open("GET", path, &own, "").answer();
        let kept = "\r\nx-request-id: of/a.proxy-1\r\n";
        assert!(answer.headers.contains(kept), "{}", answer.headers);
    }
}

const SITE: &str = "https://site.example";

/// As a browser asks in front of a request of a script.
fn may_ask(service: &Service, origin: &str) -> Answer {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        (
            "access-control-request-headers",
            "authorization,x-stainless-os",
        ),
    ];
    service
        .open("OPTIONS", "/v1/completions", &headers, "")
        .answer()
}

fn ask(service: &Service, origin: &str, key: &str) -> Answer {
    let headers = [("origin", origin), ("authorization", key)];
    let body = json!({"prompt": "a", "max_tokens": 1, "stream": true});
    service.post_with("/v1/completions", &headers, &body)
}

fn says(answer: &Answer, lines: &[&str]) {
    for line in lines {
        let line = format!("\r\n{line}\r\n");
        assert!(answer.headers.contains(&line), "{line} {}", answer.headers);
    }
}

#[test]
fn scripts_of_a_site_may_ask_if_they_are_let() {
    let service = start(|config| {
        config.cors = vec!["https://other.example".into(), SITE.into()];
        config.keys = Some(["one".to_string()].into());
    });
    let yes = "access-control-allow-origin: https://site.example";
    let asked = may_ask(&service, SITE);
    assert_eq!((asked.code, asked.body.as_str()), (204, ""));
    let methods = "access-control-allow-methods: get, post";
    let headers = "access-control-allow-headers: authorization,x-stainless-os";
    says(&asked, &[yes, methods, headers, "vary: origin"]);
    // It may read why it is refused, too.
    for (key, code) in [("Bearer one", 200), ("Bearer two", 401)] {
        let answer = ask(&service, SITE, key);
        assert_eq!(answer.code, code, "{}", answer.body);
        let readable = "access-control-expose-headers: x-request-id, x-should-retry, retry-after";
        says(&answer, &[yes, readable, "vary: origin"]);
    }
    for origin in ["https://site.example.org", "http://site.example", "null"] {
        let asked = may_ask(&service, origin);
        assert_eq!(asked.code, 405);
        for answer in [asked, ask(&service, origin, "Bearer one")] {
            assert!(
                !answer.headers.contains("access-control"),
                "{}",
                answer.headers
            );
            says(&answer, &["vary: origin"]);
        }
    }
}

#[test]
fn scripts_of_all_sites_may_ask_or_none() {
    let every = start(|config| config.cors = vec!["*".into()]);
    let none = start(|_| {});
    for origin in [SITE, "null"] {
        let line = format!("access-control-allow-origin: {origin}");
        says(&may_ask(&every, origin), &[&line]);
        says(&ask(&every, origin, "Bearer one"), &[&line]);
        for answer in [may_ask(&none, origin), ask(&none, origin, "Bearer one")] {
            let headers = &answer.headers;
            assert!(
                !headers.contains("access-control") && !headers.contains("vary"),
                "{headers}"
            );
        }
    }
}
