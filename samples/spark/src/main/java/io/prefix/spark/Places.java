package io.prefix.spark;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Places of some rows of a table, as a task carries them: arrays of a bounded size, which the executor makes rows of. A
 * table of a million rows would otherwise be a task of 100 MB for each core, and as large in the driver. No record, since
 * Kryo, which spark.serializer may be, cannot write one.
 */
final class Places implements Serializable {
    private static final long serialVersionUID = 1;

    /** The most numbers of a task, 256 KiB of them; its keys come on top. */
    private static final int MOST_NUMBERS = 1 << 16;

    private final Object[] keys;
    private final int[] part;
    private final long[] place;
    private final int[] columns; // of each row, row after row

    private Places(Object[] keys, int[] part, long[] place, int[] columns) {
        this.keys = keys;
        this.part = part;
        this.place = place;
        this.columns = columns;
    }

    /** The places of a plan, with columns key, part, place and order. */
    static Dataset<Row> of(SparkSession spark, DataType keyType, Object[] keys, Plan plan) {
        List<Places> all = split(keys, plan);
        JavaRDD<Row> rows = JavaSparkContext.fromSparkContext(spark.sparkContext())
                .parallelize(all, Math.max(1, all.size()))
                .flatMap(Places::rows);
        StructType schema = new StructType()
                .add("key", keyType)
                .add("part", DataTypes.IntegerType)
                .add("place", DataTypes.LongType)
                .add("order", DataTypes.createArrayType(DataTypes.IntegerType));
        return spark.createDataFrame(rows, schema);
    }

    static List<Places> split(Object[] keys, Plan plan) {
        List<Places> all = new ArrayList<>();
        for (int begin = 0; begin < keys.length; ) {
            int rows = Math.max(1, MOST_NUMBERS / (3 + plan.columns()[begin].length)); // part and place are three ints
            int end = begin + Math.min(rows, keys.length - begin);
            all.add(new Places(
                    Arrays.copyOfRange(keys, begin, end),
                    Arrays.copyOfRange(plan.part(), begin, end),
                    Arrays.copyOfRange(plan.place(), begin, end),
                    Arrays.stream(plan.columns(), begin, end)
                            .flatMapToInt(Arrays::stream)
                            .toArray()));
            begin = end;
        }
        return all;
    }

    Iterator<Row> rows() {
        int width = columns.length / Math.max(1, keys.length);
        return IntStream.range(0, keys.length)
                .mapToObj(i -> RowFactory.create(
                        keys[i], part[i], place[i], Arrays.copyOfRange(columns, i * width, (i + 1) * width)))
                .iterator();
    }
}
