use prefix::{Chat, Engine, Options, Task, TaskKind, Tokenizer};
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = std::env::args().nth(1).ok_or("usage: chat MODEL")?;
    let (engine, tokenizer) = (Engine::open(&model)?, Tokenizer::open(&model)?);
    let options = Options::new()?.set("max_tokens", 40)?.set("stream", true)?;
    let mut builder = Task::builder(&engine, &tokenizer, TaskKind::Chat, Some(&options))?;
    builder.add_chat(&Chat::new().user("What is a prefix tree?"))?;
    for event in builder.submit()?.events() {
        print!("{}", event?.text());
        std::io::stdout().flush()?;
    }
    Ok(())
}
