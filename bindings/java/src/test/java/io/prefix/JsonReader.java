package io.prefix;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads JSON into maps, lists, strings, Long, Double, Boolean and null; for tests, of files that are right. */
final class JsonReader {
    private final String text;
    private int at;

    static Object read(String text) {
        JsonReader reader = new JsonReader(text);
        Object value = reader.value();
        reader.skip();
        if (reader.at != text.length()) {
            throw new IllegalArgumentException("something follows at " + reader.at);
        }
        return value;
    }

    private JsonReader(String text) {
        this.text = text;
    }

    private void skip() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
            at++;
        }
    }

    private boolean take(char c) {
        skip();
        if (at < text.length() && text.charAt(at) == c) {
            at++;
            return true;
        }
        return false;
    }

    private void expect(char c) {
        if (!take(c)) {
            throw new IllegalArgumentException("no " + c + " at " + at);
        }
    }

    private Object value() {
        if (take('{')) {
            Map<String, Object> map = new LinkedHashMap<>();
            while (!take('}')) {
                expect('"');
                String key = string();
                expect(':');
                map.put(key, value());
                take(',');
            }
            return map;
        }
        if (take('[')) {
            List<Object> list = new ArrayList<>();
            while (!take(']')) {
                list.add(value());
                take(',');
            }
            return list;
        }
        if (take('"')) {
            return string();
        }
        int begin = at;
        while (at < text.length() && "+-.0123456789eEtrufalsn".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String word = text.substring(begin, at);
        return switch (word) {
            case "true" -> true;
            case "false" -> false;
            case "null" -> null;
            default -> word.matches("-?\\d+") ? (Object) Long.valueOf(word) : (Object) Double.valueOf(word);
        };
    }

    private String string() {
        StringBuilder out = new StringBuilder();
        for (char c = text.charAt(at++); c != '"'; c = text.charAt(at++)) {
            if (c != '\\') {
                out.append(c);
                continue;
            }
            char escape = text.charAt(at++);
            if (escape == 'u') {
                out.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                at += 4;
            } else {
                int known = "bfnrt".indexOf(escape);
                out.append(known < 0 ? escape : "\b\f\n\r\t".charAt(known));
            }
        }
        return out.toString();
    }
}
