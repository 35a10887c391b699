use prefix::{Engine, Request};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::open(std::env::args().nth(1).ok_or("usage: cache MODEL")?)?;
    let system: Vec<i32> = (1..100).collect();
    let mut batch = engine.batch()?;
    batch.add(Request::warm(&system))?;
    engine.run(&batch)?;
    let lease = engine.cache().pin(&system, None)?; // until it is dropped
    println!("{} tokens stay in the cache", lease.tokens());
    let file = std::env::temp_dir().join("prefix-cache");
    let saved = engine.save_snapshot(&file, &[])?; // a later process begins with load_snapshot
    println!("{} tokens in {} bytes", saved.tokens, saved.bytes);
    Ok(())
}
