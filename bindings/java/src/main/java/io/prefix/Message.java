package io.prefix;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/**
 * One turn of a conversation. Templates may print it, or parts of it, as JSON: role, content, and then what is in extra, in
 * its order. A {@link LinkedHashMap} has the order in which it was filled, there and in the maps in it; Map.of has none.
 *
 * @param role "system", "user", "assistant", ...
 * @param content what was said
 * @param extra what else the template reads: "tool_calls", "reasoning_content", ...
 */
public record Message(String role, String content, Map<String, ?> extra) {
    /**
     * A turn.
     *
     * @param role who speaks
     * @param content what was said
     * @param extra what else the template reads; not null
     */
    public Message {
        Objects.requireNonNull(extra, "extra");
    }

    /**
     * A turn with nothing else.
     *
     * @param role who speaks
     * @param content what was said
     */
    public Message(String role, String content) {
        this(role, content, Map.of());
    }

    /**
     * A turn of the user.
     *
     * @param content what was said
     * @return the message
     */
    public static Message user(String content) {
        return new Message("user", content);
    }

    /**
     * The instructions of a conversation.
     *
     * @param content what they say
     * @return the message
     */
    public static Message system(String content) {
        return new Message("system", content);
    }

    /**
     * A turn of the model.
     *
     * @param content what was said
     * @return the message
     */
    public static Message assistant(String content) {
        return new Message("assistant", content);
    }

    Map<String, Object> fields() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("role", role);
        fields.put("content", content);
        fields.putAll(extra);
        return fields;
    }
}
