use prefix::{tasks, Engine, Tokenizer};

fn main() -> prefix::Result<()> {
    let model = std::env::args().nth(1).expect("usage: rerank MODEL");
    let (engine, tokenizer) = (Engine::open(&model)?, Tokenizer::open(&model)?);
    let documents = ["Bread is baked.", "Rome is in Italy."];
    let queries = ["What is baked?"];
    let task = tasks::rerank(&engine, &tokenizer, &queries, &documents, None)?;
    task.run()?;
    let scores = task.values()?;
    for document in task.order(0)? {
        println!("{:.3} {}", scores.row(0)[document], documents[document]);
    }
    Ok(())
}
