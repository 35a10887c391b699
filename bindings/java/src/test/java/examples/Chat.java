package examples;

import io.prefix.Batch;
import io.prefix.Detokenizer;
import io.prefix.Engine;
import io.prefix.Event;
import io.prefix.Job;
import io.prefix.Message;
import io.prefix.Options;
import io.prefix.Request;
import io.prefix.Tokenizer;
import java.nio.file.Path;
import java.util.List;

/** Prints an answer while it is generated. */
public final class Chat {
    public static void main(String[] arguments) {
        Path model = Path.of(arguments[0]);
        try (Engine engine = Engine.open(model);
                Tokenizer tokenizer = Tokenizer.open(model);
                Detokenizer stream = tokenizer.detokenizer(Tokenizer.Decode.SKIP_SPECIAL);
                Batch batch = engine.batch()) {
            int[] prompt = tokenizer.chatTokens(List.of(Message.user("What is a prefix tree?")));
            Options options = Options.of("max_tokens", 40).set("stop_tokens", tokenizer.endTokens());
            batch.add(Request.generate(prompt).options(options));
            try (Job job = engine.submit(batch)) {
                job.events()
                        .filter(event -> event.kind() == Event.Kind.TOKEN)
                        .forEach(event -> System.out.print(stream.push(event.token())));
            }
            System.out.println(stream.flush());
        }
    }

    private Chat() {}
}
