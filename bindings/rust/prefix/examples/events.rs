use prefix::{Engine, Options, Request};

fn main() -> prefix::Result<()> {
    let engine = Engine::open(std::env::args().nth(1).expect("usage: events MODEL"))?;
    let options = Options::new()?.set("max_tokens", 100)?;
    let mut batch = engine.batch()?;
    batch.add(Request::generate(&[1, 5, 9, 12]).options(&options))?;
    let job = engine.submit(&batch)?;
    for event in job.events().take(20) {
        println!("{:?}", event?.kind);
    }
    job.cancel() // any thread may do this, at any time
}
