package io.prefix;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import io.prefix.internal.Constants;
import io.prefix.internal.Native;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The bindings against the headers and a C compiler. */
class HeaderTest {
    private static final Path INCLUDE = Support.ROOT.resolve("include");

    private static String headers() throws Exception {
        return Files.readString(INCLUDE.resolve("prefix.h")) + Files.readString(INCLUDE.resolve("prefix_text.h"));
    }

    private record Run(int code, String output) {}

    private static Run run(Object... command) throws Exception {
        Process process = new ProcessBuilder(Arrays.stream(command).map(Object::toString).toList())
                .redirectErrorStream(true)
                .start();
        String output = new String(process.getInputStream().readAllBytes());
        return new Run(process.waitFor(), output);
    }

    @Test
    void constantsAreThoseOfACCompiler(@TempDir Path folder) throws Exception {
        Matcher names = Pattern.compile("(?:^#define )?(PREFIX_\\w+)(?: =)?\\s+-?\\d", Pattern.MULTILINE).matcher(headers());
        StringBuilder program = new StringBuilder("#include <stdio.h>\n#include <prefix_text.h>\nint main(void) {\n");
        while (names.find()) {
            program.append("printf(\"%s %%d\\n\", (int)%s);\n".formatted(names.group(1), names.group(1)));
        }
        Files.writeString(folder.resolve("constants.c"), program + "return 0;\n}\n");
        Run compiler = run("cc", "-I", INCLUDE, "-o", folder.resolve("constants"), folder.resolve("constants.c"));
        assertEquals(0, compiler.code, compiler.output);
        Map<String, Integer> c = new TreeMap<>();
        for (String line : run(folder.resolve("constants")).output.split("\n")) {
            c.put(line.split(" ")[0], Integer.valueOf(line.split(" ")[1]));
        }
        assertTrue(c.size() > 50, c.toString());
        Map<String, Integer> java = new TreeMap<>();
        for (Field field : Constants.class.getFields()) {
            java.put(field.getName(), field.getInt(null));
        }
        assertEquals(c, java);
    }

    @Test
    void enumsFollowTheConstants() throws Exception {
        Map<String, Integer> expected = new TreeMap<>();
        Map<String, Integer> actual = new TreeMap<>();
        Map<String, Enum<?>[]> enums = Map.of(
                "PREFIX_ERR_", Status.values(),
                "PREFIX_ENGINE_", Engine.State.values(),
                "PREFIX_EVENT_", Event.Kind.values(),
                "PREFIX_FINISH_", Finish.values(),
                "PREFIX_OPTION_", OptionInfo.Type.values(),
                "PREFIX_SCOPE_", OptionInfo.Scope.values());
        for (Field field : Constants.class.getFields()) {
            for (String prefix : enums.keySet()) {
                if (field.getName().startsWith(prefix)) {
                    expected.put(field.getName(), field.getInt(null));
                }
            }
        }
        enums.forEach((prefix, constants) -> {
            for (Enum<?> constant : constants) {
                if (!constant.name().equals("UNKNOWN") && constant != Status.OK) {
                    actual.put(prefix + constant.name(), constant instanceof Status s ? s.code() : constant.ordinal());
                }
            }
        });
        assertEquals(expected, actual);
    }

    @Test
    void everyFunctionIsHere() throws Exception {
        Set<String> c = new TreeSet<>();
        Matcher names = Pattern.compile("X\\(\\s*(prefix_\\w+)\\s*\\)").matcher(headers());
        while (names.find()) {
            c.add(names.group(1));
        }
        c.removeAll(List.of("prefix_set_log_callback", "prefix_source_add_reader", "prefix_constraint_create"));
        assertEquals(
                c,
                Arrays.stream(Native.class.getDeclaredMethods())
                        .filter(method -> Modifier.isPublic(method.getModifiers()))
                        .map(Method::getName)
                        .collect(Collectors.toCollection(TreeSet::new)));
    }

    @Test
    void onlyJavaSymbolsAreExported() throws Exception {
        Path library = Path.of(System.getProperty("prefix.native.path")).resolve("libprefix_java.so");
        Run nm = run("nm", "-D", "--defined-only", library);
        assertEquals(0, nm.code, nm.output);
        for (String line : nm.output.split("\n")) {
            String name = line.substring(line.lastIndexOf(' ') + 1);
            assertTrue(name.startsWith("Java_io_prefix_internal_") || name.equals("JNI_OnLoad"), name);
        }
    }

    @Test
    void generatedCodeIsFresh() throws Exception {
        Run check = run(Support.ROOT.resolve("bindings/swig/generate"), "--check");
        assumeFalse(check.code == 77, check.output);
        assertEquals(0, check.code, check.output);
    }
}
