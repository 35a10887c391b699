package examples;

import io.prefix.Batch;
import io.prefix.Engine;
import io.prefix.Job;
import io.prefix.Request;
import io.prefix.Values;
import java.nio.file.Path;
import java.util.Arrays;

/** Scores continuations of one prompt, which is computed once. */
public final class Score {
    public static void main(String[] arguments) {
        Program.run(arguments, 1, "usage: Score MODEL", Score::run);
    }

    private static void run(String[] arguments) throws InterruptedException {
        int[] question = {1, 5, 9, 12};
        int[][] answers = {{3, 4}, {7}, {8, 8, 2}};
        try (Engine engine = Engine.open(Path.of(arguments[0]));
                Batch batch = engine.batch()) {
            batch.add(Request.continuations(question, answers));
            try (Job job = engine.run(batch)) {
                Values scores = job.allValues(); // one call for all
                for (int i = 0; i < scores.size(); i++) {
                    System.out.println(Arrays.toString(answers[i]) + ": " + Arrays.toString(scores.of(i)));
                }
            }
        }
    }

    private Score() {}
}
