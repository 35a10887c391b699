package io.prefix;

import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Settings of chat templates; as it is made, it asks for the assistant's next turn. */
public final class ChatOptions {
    private final Map<String, Object> fields = new LinkedHashMap<>();

    /** The defaults. */
    public ChatOptions() {}

    /**
     * Whether the assistant's turn begins at the end; the default is true.
     *
     * @param add whether it does
     * @return this
     */
    public ChatOptions addGenerationPrompt(boolean add) {
        fields.put("add_generation_prompt", add);
        return this;
    }

    /**
     * Leaves the last message open, to be continued.
     *
     * @return this
     */
    public ChatOptions continueFinalMessage() {
        fields.put("continue_final_message", true);
        return addGenerationPrompt(false);
    }

    /**
     * Tools that the model may call.
     *
     * @param tools definitions as JSON schemas, made of maps and lists; templates print them in the order of their maps,
     *     which a {@link LinkedHashMap} has and Map.of has not
     * @return this
     */
    public ChatOptions tools(List<?> tools) {
        fields.put("tools", tools);
        return this;
    }

    /**
     * Documents for templates that take them.
     *
     * @param documents made of maps and lists
     * @return this
     */
    public ChatOptions documents(List<?> documents) {
        fields.put("documents", documents);
        return this;
    }

    /**
     * Further variables of the template.
     *
     * @param variables for instance "enable_thinking"
     * @return this
     */
    public ChatOptions variables(Map<String, ?> variables) {
        fields.put("variables", variables);
        return this;
    }

    /**
     * Another template than the default.
     *
     * @param name its name
     * @return this
     */
    public ChatOptions template(String name) {
        fields.put("template", name);
        return this;
    }

    /**
     * The time for templates that print the date; the default is the clock.
     *
     * @param time to the second
     * @return this
     */
    public ChatOptions now(LocalDateTime time) {
        fields.put("now", time.format(DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss")));
        return this;
    }

    String json() {
        return Json.of(fields);
    }

    /** A conversation as an item of a task: its messages, with these options where there are any. */
    String item(List<Message> messages) {
        List<Map<String, Object>> turns = messages.stream().map(Message::fields).toList();
        if (fields.isEmpty()) {
            return Json.of(turns);
        }
        Map<String, Object> item = new LinkedHashMap<>();
        item.put("messages", turns);
        item.putAll(fields);
        return Json.of(item);
    }
}
