use prefix::{Chat, Engine, Options, Request, Tokenizer};

fn main() -> prefix::Result<()> {
    let model = std::env::args().nth(1).expect("usage: chat MODEL");
    let (engine, tokenizer) = (Engine::open(&model)?, Tokenizer::open(&model)?);
    let prompt = tokenizer.chat_tokens(&Chat::new().user("What is a prefix tree?"))?;
    let options = Options::new()?.set("max_tokens", 40)?;
    let options = options.set("stop_tokens", &tokenizer.end_tokens()?)?;
    let mut batch = engine.batch()?;
    batch.add(Request::generate(&prompt).options(&options))?;
    let job = engine.run(&batch)?;
    println!("{}", tokenizer.decode(&job.tokens(0)?, true)?);
    Ok(())
}
