use prefix::{Engine, Tokenizer};

fn main() -> prefix::Result<()> {
    let model = std::env::args().nth(1).expect("usage: rerank MODEL");
    let (engine, tokenizer) = (Engine::open(&model)?, Tokenizer::open(&model)?);
    let documents = ["Bread is baked.", "Rome is in Italy."];
    let ranking = prefix::rerank(&engine, &tokenizer, "What is baked?", &documents, None)?;
    for place in ranking.ranked {
        println!("{:.3} {}", place.score, documents[place.index]);
    }
    Ok(())
}
