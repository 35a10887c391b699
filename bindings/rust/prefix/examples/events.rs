use prefix::{Engine, Options, Request};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::open(std::env::args().nth(1).ok_or("usage: events MODEL")?)?;
    let options = Options::new()?.set("max_tokens", 100)?;
    let mut batch = engine.batch()?;
    batch.add(Request::generate(&[1, 5, 9, 12]).options(&options))?;
    let job = engine.submit(&batch)?;
    for event in job.events().take(20) {
        println!("{:?}", event?.kind);
    }
    Ok(job.cancel()?) // any thread may do this, at any time
}
