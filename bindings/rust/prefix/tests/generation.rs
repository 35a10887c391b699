//! Generations: the likeliest tokens of each place, and constraints.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use prefix::{
    Batch, Constraint, ConstraintState, Engine, Job, Options, Request, Status, Token, TokenMask,
    TopToken,
};
use support::{engine, load_library};

const PROMPT: [Token; 3] = [1, 5, 9];
const VOCABULARY: Token = 131;

fn generation(top: i64) -> Options {
    load_library();
    let options = Options::builder().max_tokens(4).ignore_eos(true);
    options.top_logprobs(top).build().unwrap()
}

/// The likeliest tokens after these, from the logits of all.
fn likeliest(engine: &Engine, tokens: &[Token], count: usize) -> Vec<(Token, f64)> {
    let ids: Vec<Token> = (0..VOCABULARY).collect();
    let mut batch = engine.batch().unwrap();
    batch.add(Request::logits(tokens, &ids)).unwrap();
    let logits = engine.run(&batch).unwrap().values(0).unwrap();
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
    let scores = logits.iter().map(|&logit| f64::from(logit) - sum.ln());
    let mut all: Vec<(Token, f64)> = ids.into_iter().zip(scores).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    all.truncate(count);
    all
}

fn assert_are(top: &[TopToken], expected: &[(Token, f64)]) {
    let ids = |list: &[TopToken]| list.iter().map(|top| top.token).collect::<Vec<_>>();
    let wanted: Vec<Token> = expected.iter().map(|pair| pair.0).collect();
    assert_eq!(ids(top), wanted);
    for (top, (_, logprob)) in top.iter().zip(expected) {
        assert!(
            (f64::from(top.logprob) - logprob).abs() < 1e-4,
            "{top:?}, not {logprob}"
        );
    }
}

#[test]
fn the_likeliest_tokens_are_those_of_all_logits() {
    let engine = engine();
    let options = generation(3);
    let three = Options::builder().top_logprobs(3).build().unwrap();
    let mut batch = engine.batch().unwrap();
    batch
        .add(Request::generate(&PROMPT).options(&options))
        .unwrap();
    batch
        .add(Request::logprobs(&PROMPT, 1).options(&three))
        .unwrap();
    batch.add(Request::generate(&PROMPT)).unwrap();
    batch
        .add(Request::generate(&[99_999]).options(&options))
        .unwrap();
    let job = engine.run(&batch).unwrap();
    let generated = job.tokens(0).unwrap();
    let top = job.top(0).unwrap();
    assert_eq!((generated.len(), top.len()), (4, 4));
    for (place, of_it) in top.iter().enumerate() {
        let before = [&PROMPT, &generated[..place]].concat();
        assert_are(of_it, &likeliest(&engine, &before, 3));
        assert_eq!(&job.partial_top(0, place).unwrap(), of_it);
    }
    let scored = job.top(1).unwrap();
    assert_eq!(scored.len(), 2);
    for (place, of_it) in scored.iter().enumerate() {
        assert_are(of_it, &likeliest(&engine, &PROMPT[..=place], 3));
    }
    assert_eq!(job.top(2).unwrap(), Vec::<Vec<TopToken>>::new());
    assert_eq!(job.top(3).unwrap_err().status(), Status::OutOfRange);
    let beyond = job.partial_top(0, 4).unwrap_err();
    assert_eq!(beyond.status(), Status::OutOfRange);
}

#[test]
fn as_many_as_there_are_tokens_come_whole() {
    let engine = engine();
    let options = generation(i64::from(VOCABULARY));
    let mut batch = engine.batch().unwrap();
    batch
        .add(Request::generate(&PROMPT).options(&options))
        .unwrap();
    let top = engine.run(&batch).unwrap().top(0).unwrap();
    assert_are(&top[0], &likeliest(&engine, &PROMPT, 131));
}

#[test]
fn biases_move_the_tokens_that_come() {
    let engine = engine();
    let best = likeliest(&engine, &PROMPT, 1)[0].0;
    let options = Options::builder()
        .max_tokens(1)
        .logit_bias(&[(best, -100.0), (77, 100.0), (78, 2.5e-7)])
        .build()
        .unwrap();
    let text = options.get("logit_bias").unwrap();
    assert_eq!(text, format!("{best}:-100,77:100,78:0.00000025"));
    let mut batch = engine.batch().unwrap();
    batch
        .add(Request::generate(&PROMPT).options(&options))
        .unwrap();
    let job = engine.run(&batch).unwrap();
    assert_eq!(job.tokens(0).unwrap(), [77]);
}

/// What a state does with tokens.
#[derive(Clone, Copy)]
enum Way {
    Even,
    Nothing,
    Fails,
    FailsWithZero,
    Panics,
    Beyond,
}

struct State {
    way: Way,
    accepted: usize,
    living: Arc<AtomicUsize>,
}

impl ConstraintState for State {
    fn allow(&mut self, mask: &mut TokenMask<'_>) -> Result<(), i32> {
        match self.way {
            Way::Nothing => {}
            Way::Beyond => mask.allow(5 * 32),
            _ => (0..VOCABULARY).step_by(2).for_each(|id| mask.allow(id)),
        }
        Ok(())
    }

    fn accept(&mut self, token: Token) -> Result<(), i32> {
        assert_eq!(token % 2, 0);
        self.accepted += 1;
        match self.way {
            Way::Fails if self.accepted == 2 => Err(42),
            Way::FailsWithZero => Err(0),
            Way::Panics => panic!("as the test wants"),
            _ => Ok(()),
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.living.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Constrained {
    living: Arc<AtomicUsize>,
    kept: Arc<()>,
}

impl Constrained {
    fn new() -> Constrained {
        Constrained {
            living: Arc::default(),
            kept: Arc::default(),
        }
    }

    fn constraint(&self, way: Way) -> Constraint {
        let (living, kept) = (self.living.clone(), self.kept.clone());
        let begin = move || {
            let _keep = &kept;
            living.fetch_add(1, Ordering::SeqCst);
            State {
                way,
                accepted: 0,
                living: living.clone(),
            }
        };
        Constraint::new(begin).unwrap()
    }

    /// A generation with each of these, and one without at the end.
    fn run(&self, engine: &Engine, ways: &[Way]) -> (Batch, Job) {
        let options = generation(0);
        let mut batch = engine.batch().unwrap();
        for &way in ways {
            let request = Request::generate(&PROMPT).options(&options);
            let request = batch.add(request).unwrap();
            batch
                .constrain(request, Some(&self.constraint(way)))
                .unwrap();
        }
        batch
            .add(Request::generate(&PROMPT).options(&options))
            .unwrap();
        let job = engine.run(&batch).unwrap();
        (batch, job)
    }
}

#[test]
fn a_constraint_says_which_tokens_come() {
    let engine = engine();
    let constrained = Constrained::new();
    let (mut batch, first) = constrained.run(&engine, &[Way::Even, Way::Even]);
    let mut before = PROMPT.to_vec();
    for token in first.tokens(0).unwrap() {
        let all = likeliest(&engine, &before, 131);
        assert_eq!(token, all.iter().find(|(id, _)| id % 2 == 0).unwrap().0);
        before.push(token);
    }
    assert_eq!(before.len(), 7);
    assert_eq!(first.tokens(1).unwrap(), before[3..]);
    let free = first.tokens(2).unwrap();
    assert!(free.iter().any(|token| token % 2 == 1), "{free:?}");
    assert_eq!(constrained.living.load(Ordering::SeqCst), 0);

    batch.constrain(0, None).unwrap();
    let job = engine.run(&batch).unwrap();
    assert_eq!(job.tokens(0).unwrap(), free);
    assert_eq!(job.tokens(1).unwrap(), before[3..]);
    let beyond = batch.constrain(3, None).unwrap_err();
    assert_eq!(beyond.status(), Status::OutOfRange);
    assert!(Arc::strong_count(&constrained.kept) > 1);
    drop((first, job, batch, engine));
    assert_eq!(
        Arc::strong_count(&constrained.kept),
        1,
        "what began states is dropped with the last batch"
    );
}

#[test]
fn a_constraint_that_fails_ends_its_request_alone() {
    let engine = engine();
    let constrained = Constrained::new();
    let ways = [
        (Way::Nothing, "token 0"),
        (Way::Fails, "42"),
        (Way::FailsWithZero, "-1"),
        (Way::Panics, "-1"),
        (Way::Beyond, "-1"),
    ];
    let (_batch, job) = constrained.run(&engine, &ways.map(|(way, _)| way));
    for (request, (_, sentence)) in ways.iter().enumerate() {
        let error = job.tokens(request).unwrap_err();
        assert_eq!(error.status(), Status::InvalidArgument, "{error}");
        if request > 0 {
            assert!(error.message().contains(sentence), "{error}");
        }
    }
    assert_eq!(job.tokens(ways.len()).unwrap().len(), 4);
    assert_eq!(constrained.living.load(Ordering::SeqCst), 0);

    let panics = || -> State { panic!("as the test wants") };
    let mut batch = engine.batch().unwrap();
    batch.add(Request::generate(&PROMPT)).unwrap();
    let constraint = Constraint::new(panics).unwrap();
    batch.constrain(0, Some(&constraint)).unwrap();
    let error = engine.run(&batch).unwrap().tokens(0).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument, "{error}");
}
