use prefix::{Engine, Request};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = std::env::args().nth(1).ok_or("usage: score MODEL")?;
    let engine = Engine::open(model)?;
    let question = [1, 5, 9, 12];
    let answers = [vec![3, 4], vec![7], vec![8, 8, 2]];
    let mut batch = engine.batch()?;
    batch.add(Request::continuations(&question, &answers))?;
    let scores = engine.run(&batch)?.all_values()?;
    for (answer, logprobs) in answers.iter().zip(scores.iter()) {
        println!("{answer:?}: {:.3}", logprobs.iter().sum::<f32>());
    }
    Ok(())
}
