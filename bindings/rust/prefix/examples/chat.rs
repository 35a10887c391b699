use prefix::{Chat, Engine, Options, Task, TaskKind, Tokenizer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = std::env::args().nth(1).ok_or("usage: chat MODEL")?;
    let (engine, tokenizer) = (Engine::open(&model)?, Tokenizer::open(&model)?);
    let options = Options::new()?.set("max_tokens", 40)?.set("stream", true)?;
    let mut builder = Task::builder(&engine, &tokenizer, TaskKind::Chat, Some(&options))?;
    builder.add_chat(&Chat::new().user("What is a prefix tree?"))?;
    let task = builder.submit()?;
    for event in task.events() {
        print!("{}", event?.text());
        std::io::Write::flush(&mut std::io::stdout())?;
    }
    Ok(task.text(0).map(drop)?) // of a text that failed, why
}
