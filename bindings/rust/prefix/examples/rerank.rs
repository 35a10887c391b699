use prefix::{Engine, Tokenizer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = std::env::args().nth(1).ok_or("usage: rerank MODEL")?;
    let (engine, tokenizer) = (Engine::open(&model)?, Tokenizer::open(&model)?);
    let documents = ["Bread is baked.", "Rome is in Italy."];
    let ranking = prefix::rerank(&engine, &tokenizer, "What is baked?", &documents, None)?;
    for place in ranking.ranked {
        println!("{:.3} {}", place.score, documents[place.index]);
    }
    Ok(())
}
