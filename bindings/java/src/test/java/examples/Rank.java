package examples;

import io.prefix.Engine;
import io.prefix.Ranked;
import io.prefix.Tasks;
import io.prefix.Tokenizer;
import java.nio.file.Path;
import java.util.List;

/** Sorts documents by a query. */
public final class Rank {
    public static void main(String[] arguments) {
        Program.run(arguments, 1, "usage: Rank MODEL", Rank::run);
    }

    private static void run(String[] arguments) throws InterruptedException {
        Path model = Path.of(arguments[0]); // a .gguf file or a Hugging Face directory
        List<String> documents = List.of("Bread is baked from flour.", "Paris is the capital of France.");
        try (Engine engine = Engine.open(model);
                Tokenizer tokenizer = Tokenizer.open(model)) {
            var ranking = Tasks.rerank(engine, tokenizer, "What is the capital of France?", documents, null);
            for (Ranked r : ranking.results()) {
                System.out.println(r.score() + " " + documents.get(r.index()));
            }
        }
    }

    private Rank() {}
}
