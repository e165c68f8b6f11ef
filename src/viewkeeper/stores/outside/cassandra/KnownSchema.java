import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.ReversedType;
import org.apache.cassandra.schema.CQLTypeParser;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.KeyspaceParams;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.Tables;
import org.apache.cassandra.schema.Types;

/** Keyspaces as followers tell them, who can ask the cluster: its rows of system_schema, as JSON.
 *
 *  What has been told stays known: the log may hold mutations of tables that are gone, and a follower may tell of what was
 *  a moment ago. */
final class KnownSchema {
  /** Nobody may read meanwhile. */
  static void tell(JsonNode told) {
    String keyspace = told.get("keyspace").asText();
    Types.RawBuilder raw = Types.rawBuilder(keyspace);
    for (JsonNode type : told.get("types")) raw.add(type.get("name").asText(), texts(type.get("fields")), texts(type.get("types")));
    Types types = raw.build();
    Map<TableId, TableMetadata> tables = new LinkedHashMap<>();
    KeyspaceMetadata known = Schema.instance.getKeyspaceMetadata(keyspace);
    if (known != null) for (TableMetadata was : known.tables) tables.put(was.id, was);
    for (JsonNode each : told.get("tables")) {
      TableMetadata made = table(keyspace, each, types);
      tables.put(made.id, made);
    }
    // Of two of one name the younger has it: ids of tables are times.
    Map<String, TableMetadata> named = new LinkedHashMap<>();
    for (TableMetadata each : tables.values()) {
      TableMetadata other = each.name.contains("@") ? null : named.get(each.name);
      boolean isOlder = other != null && each.id.asUUID().timestamp() < other.id.asUUID().timestamp();
      TableMetadata older = other == null ? null : renamed(isOlder ? each : other), younger = isOlder ? other : each;
      named.put(younger.name, younger);
      if (older != null) named.put(older.name, older);
    }
    // All anew: Cassandra does not change the name of a table that it has, nor the type of a column.
    set(keyspace, List.of());
    set(keyspace, new ArrayList<>(named.values()));
  }

  private static void set(String keyspace, List<TableMetadata> tables) {
    KeyspaceMetadata made = KeyspaceMetadata.create(keyspace, KeyspaceParams.simple(1), Tables.builder().add(tables).build());
    Schema.instance.transform(schema -> schema.withAddedOrUpdated(made));
  }

  private static TableMetadata table(String keyspace, JsonNode told, Types types) {
    TableMetadata.Builder table = TableMetadata.builder(keyspace, told.get("name").asText(), TableId.fromString(told.get("id").asText()));
    table.flags(TableMetadata.Flag.fromStringSet(new HashSet<>(texts(told.get("flags")))));
    for (JsonNode column : told.get("columns")) {  // in the order of their positions
      String name = column.get("name").asText();
      AbstractType<?> type = CQLTypeParser.parse(keyspace, column.get("type").asText(), types);
      switch (column.get("kind").asText()) {
        case "partition_key" -> table.addPartitionKeyColumn(name, type);
        case "clustering" -> table.addClusteringColumn(name, column.get("order").asText().equals("desc") ? ReversedType.getInstance(type) : type);
        case "static" -> table.addStaticColumn(name, type);
        default -> table.addRegularColumn(name, type);
      }
    }
    for (JsonNode column : told.get("dropped")) {
      String name = column.get("name").asText();
      AbstractType<?> type = CQLTypeParser.parse(keyspace, column.get("type").asText(), types);
      table.recordColumnDrop(column.get("kind").asText().equals("static")
          ? ColumnMetadata.staticColumn(keyspace, told.get("name").asText(), name, type)
          : ColumnMetadata.regularColumn(keyspace, told.get("name").asText(), name, type), column.get("time").asLong());
    }
    return table.build();
  }

  private static TableMetadata renamed(TableMetadata was) {
    TableMetadata.Builder table = TableMetadata.builder(was.keyspace, was.name + "@" + was.id, was.id);
    table.flags(was.flags).addColumns(was.columns()).droppedColumns(was.droppedColumns);
    return table.build();
  }

  private static List<String> texts(JsonNode array) {
    List<String> found = new ArrayList<>();
    array.forEach(each -> found.add(each.asText()));
    return found;
  }

  private KnownSchema() {}
}
