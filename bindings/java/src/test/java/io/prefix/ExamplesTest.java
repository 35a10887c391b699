package io.prefix;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import examples.Chat;
import examples.Keep;
import examples.Overhead;
import examples.Rank;
import examples.Score;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The programs of the README do what it says. */
class ExamplesTest {
    private static final String MODEL = Support.SMOLLM2.toString();

    private interface Main {
        void run() throws Exception;
    }

    private static List<String> output(Main main) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        PrintStream old = System.out;
        System.setOut(new PrintStream(bytes, true, StandardCharsets.UTF_8));
        try {
            main.run();
        } finally {
            System.setOut(old);
        }
        return bytes.toString(StandardCharsets.UTF_8).lines().toList();
    }

    @Test
    void rank() throws Exception {
        List<String> lines = output(() -> Rank.main(new String[] {MODEL}));
        assertEquals(2, lines.size());
        assertTrue(lines.get(0).endsWith("Paris is the capital of France."), lines.toString());
    }

    @Test
    void chat() throws Exception {
        assertTrue(String.join(" ", output(() -> Chat.main(new String[] {MODEL}))).contains("prefix"));
    }

    @Test
    void score() throws Exception {
        List<String> lines = output(() -> Score.main(new String[] {Support.LLAMA.toString()}));
        assertEquals(3, lines.size());
        assertTrue(lines.get(2).startsWith("[8, 8, 2]: [-"), lines.toString());
    }

    @Test
    void keep(@TempDir Path folder) throws Exception {
        String[] arguments = {Support.LLAMA.toString(), folder.resolve("cache").toString()};
        List<String> lines = output(() -> Keep.main(arguments));
        assertEquals("99 tokens stay in the cache", lines.get(0));
        assertTrue(lines.get(1).matches("\\d+ tokens in \\d+ bytes"), lines.toString());
    }

    /** Who starts one wrongly reads what to do, and no stack. */
    @Test
    void whatIsWrongIsSaid() throws Exception {
        for (Class<?> program : List.of(Rank.class, Chat.class, Score.class, Keep.class, Overhead.class)) {
            String usage = said(program, 2);
            assertTrue(usage.startsWith("usage: " + program.getSimpleName() + " MODEL"), usage);
            String[] missing = program == Keep.class ? new String[] {"/no model", "file"} : new String[] {"/no model"};
            String reason = said(program, 1, missing);
            assertTrue(reason.contains("/no model"), reason);
        }
    }

    /** No event says why a text failed: who reads the events alone would take it for an empty one. */
    @Test
    void chatSaysWhyThereIsNoAnswer(@TempDir Path folder) throws Exception {
        Support.asciiModel(folder);
        Files.writeString(
                folder.resolve("tokenizer_config.json"), "{\"chat_template\": \"{{ raise_exception('not today') }}\"}");
        String reason = said(Chat.class, 1, folder.toString());
        assertTrue(reason.contains("not today"), reason);
    }

    /** The one line on standard error of a program that ends with this code. */
    private static String said(Class<?> program, int code, String... arguments) throws Exception {
        List<String> path = new ArrayList<>();
        for (Class<?> type : List.of(Prefix.class, program)) {
            path.add(Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI()).toString());
        }
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Dprefix.native.path=" + System.getProperty("prefix.native.path"),
                "-cp", String.join(File.pathSeparator, path), program.getName()));
        command.addAll(List.of(arguments));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        List<String> lines = new String(process.getInputStream().readAllBytes()).lines().toList();
        assertEquals(code, process.waitFor(), lines.toString());
        // A newer JDK warns of native code, with an empty line behind that.
        List<String> said = lines.stream().filter(line -> !line.isEmpty() && !line.startsWith("WARNING:")).toList();
        assertEquals(1, said.size(), said.toString());
        return said.get(0);
    }

    /** The README shows these programs as they are. */
    @Test
    void readme() throws Exception {
        String readme = Files.readString(Support.ROOT.resolve("bindings/java/README.md"));
        for (String name : List.of("Rank", "Chat", "Score", "Keep")) {
            String source = Files.readString(
                    Support.ROOT.resolve("bindings/java/src/test/java/examples/" + name + ".java"));
            String body = source.substring(source.indexOf("    private static void run"), source.indexOf("    private " + name));
            List<String> lines = body.stripTrailing().lines().skip(1).map(line -> line.replaceFirst("^ {8}", "")).toList();
            String shown = String.join("\n", lines.subList(0, lines.size() - 1));
            assertTrue(readme.contains(shown), name + ":\n" + shown);
        }
    }
}
