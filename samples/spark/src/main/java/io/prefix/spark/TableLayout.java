package io.prefix.spark;

import static org.apache.spark.sql.functions.array;
import static org.apache.spark.sql.functions.broadcast;
import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.expr;
import static org.apache.spark.sql.functions.hex;
import static org.apache.spark.sql.functions.length;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.struct;
import static org.apache.spark.sql.functions.to_json;
import static org.apache.spark.sql.functions.when;

import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * A table as prompts, in partitions that engines with a cache of their own can work through: rows that begin alike are
 * in one partition, beside each other. A prompt is a row as JSON, with its fields in the order that shares the most.
 *
 * <p>The driver sees the key of each row, and a hash and a length of each cell, never the texts.
 */
public final class TableLayout {
    /** Places of so many rows go to every executor, which spares a shuffle of the texts. Of an RDD Spark knows no size. */
    private static final int FEW_ROWS = 1 << 16;

    private final Dataset<Row> prompts;
    private final double sharedBefore;
    private final double shared;
    private final double duplicated;

    private TableLayout(Dataset<Row> prompts, Plan plan) {
        this.prompts = prompts;
        sharedBefore = share(plan.hitBefore(), plan.bytes());
        shared = share(plan.hit(), plan.bytes());
        duplicated = share(plan.computed() - plan.distinct(), plan.distinct());
    }

    private static double share(long part, long whole) {
        return whole == 0 ? 0 : (double) part / whole;
    }

    /**
     * Lays a table out. It is read now and again when the prompts are: cache one that is dear to read.
     *
     * @param table any
     * @param key the column that tells rows apart: no two equal, none null
     * @param columns those that make the prompt
     * @param parts how many partitions: a few for each task that runs at a time, so that a slow or lost executor costs
     *     little; each cut costs what both sides have in common
     * @return the prompts and what they share
     * @throws IllegalArgumentException for no columns, no parts, and keys that are equal or null
     */
    public static TableLayout of(Dataset<Row> table, String key, List<String> columns, int parts) {
        if (columns.isEmpty() || parts < 1) {
            throw new IllegalArgumentException(
                    "a prompt needs a column and a table a part; there are " + columns.size() + " and " + parts);
        }
        Dataset<Row> cells = table.select(
                quoted(key).as("key"),
                array(columns.stream().map(TableLayout::field).toArray(Column[]::new)).as("cells"));
        Outline outline = outline(cells, key);
        Plan plan = Plan.of(outline.values(), outline.lengths(), parts);
        DataType keyType = cells.schema().apply("key").dataType();
        Dataset<Row> placed = Places.of(cells.sparkSession(), keyType, outline.keys(), plan);
        refuseEqual(placed, key);
        Dataset<Row> joined = outline.keys().length <= FEW_ROWS ? broadcast(placed) : placed;
        return new TableLayout(prompts(cells, joined, parts), plan);
    }

    /** What the driver needs of each row, without the rows that Spark makes of it. */
    private record Outline(Object[] keys, long[][] values, int[][] lengths) {}

    private static Outline outline(Dataset<Row> cells, String key) {
        List<Row> rows = cells.select(
                        col("key"),
                        expr("transform(cells, c -> xxhash64(c))"),
                        // The comma behind it; a field that is null is left out.
                        expr("transform(cells, c -> coalesce(octet_length(c) + 1, 0))"))
                .collectAsList();
        Object[] keys = new Object[rows.size()];
        long[][] values = new long[keys.length][];
        int[][] lengths = new int[keys.length][];
        for (int i = 0; i < keys.length; i++) {
            Row row = rows.get(i);
            if (row.isNullAt(0)) {
                throw new IllegalArgumentException("column " + key + " is no key: a row has none");
            }
            keys[i] = row.get(0);
            values[i] = row.<Long>getList(1).stream().mapToLong(v -> v).toArray();
            lengths[i] = row.<Integer>getList(2).stream().mapToInt(v -> v).toArray();
        }
        return new Outline(keys, values, lengths);
    }

    /** Equal is what the join takes for it, such as bytes, -0.0 and 0.0, or letters of a collation: it would multiply rows. */
    private static void refuseEqual(Dataset<Row> placed, String key) {
        Column shown = placed.schema().apply("key").dataType().equals(DataTypes.BinaryType)
                ? hex(col("key"))
                : col("key").cast(DataTypes.StringType);
        for (Row equal : placed.groupBy("key").count().where("count > 1").select(shown, col("count")).takeAsList(1)) {
            throw new IllegalArgumentException(
                    "column " + key + " is no key: " + equal.get(0) + " is in " + equal.get(1) + " rows");
        }
    }

    private static Dataset<Row> prompts(Dataset<Row> cells, Dataset<Row> placed, int parts) {
        // A row that came into the table since it was planned is in no place; it is not to be lost.
        return cells.join(placed, cells.col("key").equalTo(placed.col("key")), "left")
                .select(
                        cells.col("key"),
                        expr("concat('{', concat_ws(',', transform("
                                        + "coalesce(order, sequence(0, size(cells) - 1)), i -> cells[i])), '}')")
                                .as("prompt"),
                        expr("coalesce(part, 0)").as("part"),
                        expr("coalesce(place, " + Long.MAX_VALUE + ")").as("place"))
                .repartitionById(parts, col("part"))
                .sortWithinPartitions(col("place"));
    }

    /** A cell as it stands in the prompt, "name":value; null where it is null. */
    private static Column field(String name) {
        Column json = to_json(struct(quoted(name).as(name)));
        Column inside = json.substr(lit(2), length(json).minus(2));
        return when(quoted(name).isNotNull(), inside);
    }

    /** A column of this very name, whatever is in it. */
    private static Column quoted(String name) {
        return col("`" + name.replace("`", "``") + "`");
    }

    /**
     * The prompts.
     *
     * @return columns key, prompt (a row as JSON), part and place, in partitions by part, sorted by place
     */
    public Dataset<Row> prompts() {
        return prompts;
    }

    /**
     * What prompts share with the one before as the table came.
     *
     * @return the share of their bytes, in [0, 1]
     */
    public double sharedBefore() {
        return sharedBefore;
    }

    /**
     * What prompts share with the one before as they are laid out, all parts seen as one.
     *
     * @return the share of their bytes, in [0, 1]
     */
    public double shared() {
        return shared;
    }

    /**
     * What the parts compute more than one engine would, since each has a cache of its own.
     *
     * @return the share of what one engine would compute
     */
    public double duplicated() {
        return duplicated;
    }
}
