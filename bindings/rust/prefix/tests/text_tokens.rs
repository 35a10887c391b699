//! The tokens of the texts of tasks, against those of the same request without a tokenizer.
#![cfg(feature = "text")]

mod support;

use prefix::{EventKind, Request, Status, Task, TaskKind};
use support::{open, options};

#[test]
fn the_tokens_of_a_text_have_log_probs() {
    let (engine, tokenizer) = open();
    for likely in [0, 2] {
        let told = || {
            let told = options().set("max_tokens", 100).unwrap();
            let told = told.set("ignore_eos", true).unwrap();
            let told = told.set("logprobs", true).unwrap();
            told.set("top_logprobs", likely).unwrap()
        };
        let (options, streamed) = (told(), told().set("stream", true).unwrap());
        let kind = TaskKind::Generate;
        let mut builder = Task::builder(&engine, &tokenizer, kind, Some(&streamed)).unwrap();
        builder.add(&["one"]).unwrap();
        let task = builder.submit().unwrap();
        let (mut so_far, mut sent) = (Vec::new(), 0);
        for event in task.events() {
            so_far.extend(task.logprobs(0, so_far.len()).unwrap());
            if let EventKind::Text(text) = event.unwrap().kind {
                sent += text.len();
                let later = task.logprobs(0, so_far.len()).unwrap();
                assert!(later.iter().all(|token| token.offset >= sent));
            }
        }
        let tokens = task.logprobs(0, 0).unwrap();
        assert_eq!((tokens.len(), &so_far), (100, &tokens));

        let mut batch = engine.batch().unwrap();
        let prompt = task.tokens(0).unwrap();
        batch
            .add(Request::generate(&prompt).options(&options))
            .unwrap();
        let job = engine.run(&batch).unwrap();
        let (ids, logprobs) = (job.tokens(0).unwrap(), job.logprobs(0).unwrap());
        let top = job.top(0).unwrap();
        for (i, token) in tokens.iter().enumerate() {
            assert_eq!((token.token, token.logprob), (ids[i], logprobs[i]));
            assert_eq!(token.top, top.get(i).cloned().unwrap_or_default());
            assert_eq!(token.top.len(), likely as usize);
        }
        assert_eq!(task.logprobs(0, 97).unwrap(), tokens[97..]);
        assert_eq!(task.logprobs(0, 100).unwrap(), []);
        let error = task.logprobs(0, 101).unwrap_err();
        assert_eq!(error.status(), Status::OutOfRange);
    }
}
