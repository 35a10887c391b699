//! The scores of bindings/golden.json, bit for bit; the bindings for Go and Java read the same file.

mod support;

use prefix::{Batch, Engine, Job, Options, Request, Status, Token};
use support::json::Json;
use support::{bits, model, root};

struct Golden {
    engine: Engine,
    requests: Vec<Json>,
}

fn golden() -> Golden {
    let text = std::fs::read_to_string(root().join("bindings/golden.json")).unwrap();
    let file = Json::parse(&text);
    let mut options: Options = support::options();
    for (key, value) in file.get("options").map() {
        options.put(key, value.text()).unwrap();
    }
    let engine = Engine::open_with(model(file.get("model").text()), &options).unwrap();
    Golden {
        engine,
        requests: file.get("requests").list().to_vec(),
    }
}

fn lists(value: &Json) -> Vec<Vec<Token>> {
    value.list().iter().map(Json::tokens).collect()
}

/// Adds a request of the file; returns its numbers in the batch.
fn add(batch: &mut Batch, request: &Json) -> std::ops::Range<usize> {
    let tokens = request.get("tokens").tokens();
    let ids = request.get("ids").tokens();
    let mut options = Options::new().unwrap();
    let mut count = 1;
    let built = match request.get("task").text() {
        "logits" => Request::logits(&tokens, &ids),
        "logprobs" => Request::logprobs(&tokens, request.get("from").number() as usize),
        "choices" => Request::choices(&tokens, &lists(request.get("choices"))),
        "continuations" => {
            let continuations = lists(request.get("continuations"));
            count = continuations.len();
            Request::continuations(&tokens, &continuations)
        }
        "embedding" => Request::embedding(&tokens),
        "generate" => {
            options.put("logprobs", true).unwrap();
            options
                .put("max_tokens", request.get("max_tokens").number() as i64)
                .unwrap();
            Request::generate(&tokens)
        }
        other => panic!("task {other}"),
    };
    let first = batch.add(built.options(&options)).unwrap();
    first..first + count
}

fn compare(job: &Job, request: &Json, numbers: std::ops::Range<usize>) {
    let task = request.get("task").text();
    let status = Status::from_code(request.get("status").number() as i32);
    let first = numbers.start;
    assert_eq!(job.info(first).unwrap().status, status, "{task}");
    if status != Status::Ok {
        let error = job.values(first).unwrap_err();
        assert_eq!(error.status(), status);
        assert!(!error.message().is_empty());
        return;
    }
    let values: Vec<f32> = numbers
        .flat_map(|number| job.values(number).unwrap())
        .collect();
    assert_eq!(
        bits(&values),
        request.get("values_bits").bits(),
        "values of {task}"
    );
    let logprobs = bits(&job.logprobs(first).unwrap());
    assert_eq!(
        logprobs,
        request.get("logprobs_bits").bits(),
        "log-probabilities of {task}"
    );
    assert_eq!(
        job.tokens(first).unwrap(),
        request.get("generated").tokens(),
        "tokens of {task}"
    );
}

#[test]
fn all_requests_in_one_batch() {
    let golden = golden();
    let mut batch = golden.engine.batch().unwrap();
    let numbers: Vec<_> = golden
        .requests
        .iter()
        .map(|request| add(&mut batch, request))
        .collect();
    let job = golden.engine.run(&batch).unwrap();
    let all = job.all_values().unwrap();
    assert_eq!(all.len(), batch.len().unwrap());
    for (request, numbers) in golden.requests.iter().zip(numbers) {
        let joined: Vec<f32> = numbers
            .clone()
            .flat_map(|n| all.get(n).unwrap().to_vec())
            .collect();
        assert_eq!(bits(&joined), request.get("values_bits").bits());
        compare(&job, request, numbers);
    }
    assert!(
        job.totals().unwrap().tokens_shared > 0,
        "the prompts share a stem"
    );
}

#[test]
fn each_request_alone() {
    let golden = golden();
    for request in &golden.requests {
        let mut batch = golden.engine.batch().unwrap();
        let numbers = add(&mut batch, request);
        compare(&golden.engine.run(&batch).unwrap(), request, numbers);
    }
}
