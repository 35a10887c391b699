package examples;

import io.prefix.Engine;
import io.prefix.Message;
import io.prefix.Options;
import io.prefix.Task;
import io.prefix.Tokenizer;
import java.nio.file.Path;
import java.util.List;

/** Prints an answer while it is written. */
public final class Chat {
    public static void main(String[] arguments) {
        Program.run(arguments, 1, "usage: Chat MODEL", Chat::run);
    }

    private static void run(String[] arguments) {
        Path model = Path.of(arguments[0]);
        Options options = Options.of("max_tokens", 40).set("stream", true);
        try (Engine engine = Engine.open(model);
                Tokenizer tokenizer = Tokenizer.open(model);
                Task task = Task.create(engine, tokenizer, "chat", options)) {
            task.addChat(List.of(Message.user("What is a prefix tree?")));
            task.submit();
            task.events().forEach(event -> System.out.print(event.text()));
            System.out.println();
            task.text(0); // throws why, where it failed
        }
    }

    private Chat() {}
}
