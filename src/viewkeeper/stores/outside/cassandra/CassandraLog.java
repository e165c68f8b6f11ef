import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.apache.cassandra.config.Config;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.TableMetadata;

/** Serves the change log of one Cassandra node: what the commit log segments in its folder cdc_raw hold of each table.
 *
 *  CassandraLog CDC_RAW STATE HOST PORT, with the node's own settings in -Dcassandra.config.
 *  A request is its length (big-endian) and a JSON object; so is an answer, behind which buffers may come (FoundRows). */
public final class CassandraLog {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int REQUEST_MAX = 64 << 20;
  private static final double NEARLY_FULL = 0.75;
  private final Segments segments;
  private final Path folder;
  private final ReadWriteLock reading = new ReentrantReadWriteLock();
  private final Object looking = new Object();
  private volatile ObjectNode schema;
  private long told;

  private CassandraLog(Path folder, Path state) throws IOException {
    this.folder = folder;
    segments = new Segments(folder, state);
    schema = segments.schema();
    if (schema != null) schema.get("keyspaces").forEach(KnownSchema::tell);
  }

  public static void main(String[] arguments) throws Exception {
    DatabaseDescriptor.toolInitialization();
    DatabaseDescriptor.applyAddressConfig();
    Path folder = Path.of(arguments[0].isEmpty() ? DatabaseDescriptor.getCDCLogLocation() : arguments[0]);
    if (!Files.isDirectory(folder)) throw new IOException(folder + " is no folder: is cdc_enabled true, and has the node been started?");
    CassandraLog log = new CassandraLog(folder, Path.of(arguments[1]).resolve("followers.json"));
    try (ServerSocket server = new ServerSocket(Integer.parseInt(arguments[3]), 64, InetAddress.getByName(arguments[2]))) {
      System.err.println("serving " + folder + " on " + arguments[2] + ":" + server.getLocalPort());
      while (true) {
        Socket client = server.accept();
        Thread thread = new Thread(() -> log.serve(client));
        thread.setDaemon(true);
        thread.start();
      }
    }
  }

  private void serve(Socket client) {
    try (client) {
      client.setTcpNoDelay(true);
      DataInputStream in = new DataInputStream(new BufferedInputStream(client.getInputStream()));
      DataOutputStream out = new DataOutputStream(new BufferedOutputStream(client.getOutputStream(), 1 << 16));
      while (true) {
        int length = in.readInt();
        if (length < 0 || length > REQUEST_MAX) return;
        byte[] request = new byte[length];
        in.readFully(request);
        answer(JSON.readTree(request), out);
        out.flush();
      }
    } catch (EOFException e) {
      return;
    } catch (IOException e) {
      if (!client.isClosed()) System.err.println("a client is gone: " + e.getMessage());
    }
  }

  private void answer(JsonNode request, DataOutputStream out) throws IOException {
    try {
      switch (request.path("do").asText()) {
        case "schema" -> send(out, schema(request));
        case "followers" -> send(out, followers());
        case "drop" -> send(out, JSON.createObjectNode().put("dropped", segments.drop(request.get("follower").asText())));
        default -> {
          reading.readLock().lock();
          try {
            ask(request, out);
          } finally {
            reading.readLock().unlock();
          }
        }
      }
    } catch (FoundRows.Unknown e) {
      send(out, failed("schema", e.getMessage()));
    } catch (Emptied e) {
      send(out, failed("truncated", "it was emptied"));
    } catch (IOException | RuntimeException e) {
      System.err.println(request.path("do").asText() + ": " + e);
      send(out, failed("failed", e.getMessage() == null ? e.toString() : e.getMessage()));
    }
  }

  /** What needs a schema that nobody changes meanwhile. */
  private void ask(JsonNode request, DataOutputStream out) throws IOException {
    switch (request.path("do").asText()) {
      case "who" -> send(out, described(JSON.createObjectNode(), request, false));
      case "ends" -> send(out, ends(request));
      case "read" -> read(request, out);
      case "begin", "passed" -> {
        String follower = request.get("follower").asText();
        TableMetadata table = tableOf(request);
        if (request.get("do").asText().equals("begin")) segments.begin(follower, table.id.toString(), emptied(table));
        segments.passed(follower, request.get("place").asLong());
        send(out, JSON.createObjectNode());
      }
      default -> send(out, failed("failed", "there is no request " + request.path("do")));
    }
  }

  private static ObjectNode failed(String kind, String why) { return JSON.createObjectNode().put("failed", kind).put("why", why); }

  private static void send(DataOutputStream out, JsonNode answer) throws IOException {
    byte[] bytes = JSON.writeValueAsBytes(answer);
    out.writeInt(bytes.length);
    out.write(bytes);
  }

  private ObjectNode ends(JsonNode request) throws IOException {
    ObjectNode answer = JSON.createObjectNode().put("used", segments.bytes()).put("limit", DatabaseDescriptor.getCDCTotalSpace())
        .put("sync_ms", DatabaseDescriptor.getCommitLogSync() == Config.CommitLogSync.periodic ? DatabaseDescriptor.getCommitLogSyncPeriod() : 0);
    ArrayNode all = answer.putArray("segments");
    for (Segments.Segment each : segments.look()) all.addArray().add(Place.of(each.id(), 0)).add(each.end());
    tellIfFull(answer.get("used").asLong(), answer.get("limit").asLong());
    described(answer, request, true);
    requireNotEmptied(request);
    return withEnd(answer, tableOf(request));
  }

  /** Where the log ends for a table: with the last entry of it, since entries of others need not be followed.  Before
   *  anybody has looked that is the end of all. */
  private ObjectNode withEnd(ObjectNode answer, TableMetadata table) throws IOException {
    synchronized (looking) {
      return answer.setAll(end(table));
    }
  }

  private ObjectNode end(TableMetadata table) throws IOException {
    String name = table.keyspace + "." + table.name;
    JsonNode at = emptied(table);
    long end = segments.end(), emptied = at.path(0).asLong() < Place.FIRST ? 0 : Place.of(at.get(0).asLong(), at.get(1).asInt());
    Segments.Looked looked = segments.looked(name);
    long last = looked == null ? end : looked.last();
    if (looked != null && end > looked.upto()) {
      TableLog log = new TableLog(segments, table, null, null, true);
      for (Segments.Segment each : segments.look())
        if (each.id() >= Place.segment(looked.upto()) && each.id() <= Place.segment(end)) log.read(each, looked.upto(), end);
      last = Math.max(last, log.last);
    }
    last = Math.max(last, Math.max(segments.gone(), emptied));
    segments.looked(name, new Segments.Looked(Math.max(end, last), last));
    return JSON.createObjectNode().put("end", last).put("start", Math.max(emptied, Math.min(segments.start(), last)));
  }

  /** When a table was emptied, as far as anybody has said: a segment, how far in it, and a time. */
  private JsonNode emptied(TableMetadata table) { return schema.get("emptied").path(table.id.toString()); }

  private void requireNotEmptied(JsonNode request) {
    TableMetadata table = tableOf(request);
    JsonNode began = segments.emptied(request.path("follower").asText(), table.id.toString());
    if (began != null && !began.equals(emptied(table))) throw new Emptied();
  }

  private static final class Emptied extends RuntimeException {}

  private static TableMetadata tableOf(JsonNode request) {
    return Schema.instance.getTableMetadata(request.path("keyspace").asText(), request.path("table").asText());
  }

  /** Adds who this is, and the table, as far as they are known. */
  private ObjectNode described(ObjectNode answer, JsonNode request, boolean isNeeded) {
    JsonNode known = schema;
    answer.put("cluster", DatabaseDescriptor.getClusterName()).put("address", address());
    if (known != null) answer.put("host", known.get("host").asText());
    TableMetadata table = tableOf(request);
    if (table == null || known == null) {
      if (isNeeded) throw new FoundRows.Unknown("table " + request.path("table").asText());
      return answer;
    }
    answer.put("table", table.id.toString()).put("schema", known.get("versions").path(table.id.toString()).asText());
    ArrayNode falling = answer.putArray("falling");
    for (ColumnMetadata column : table.clusteringColumns()) falling.add(column.type.isReversed());
    ObjectNode types = answer.putObject("types");
    for (ColumnMetadata column : table.columns()) types.put(column.name.toString(), column.type.unwrap().asCQL3Type().toString());
    return answer;
  }

  private static String address() {
    InetAddress known = DatabaseDescriptor.getBroadcastAddress();
    return (known == null ? DatabaseDescriptor.getListenAddress() : known).getHostAddress();
  }

  /** Nobody reads meanwhile: see KnownSchema. */
  private ObjectNode schema(JsonNode request) throws IOException {
    reading.writeLock().lock();
    try {
      KnownSchema.tell(request.get("keyspace"));
      ObjectNode known = schema == null ? JSON.createObjectNode() : schema.deepCopy();
      String table = request.get("table").asText(), name = request.get("keyspace").get("keyspace").asText();
      known.put("host", request.get("host").asText());
      known.withObject("/versions").put(table, request.get("version").asText());
      known.withObject("/keyspaces").set(name, request.get("keyspace"));
      ObjectNode emptied = known.withObject("/emptied");
      // Who tells of it may have looked a moment ago.
      JsonNode told = request.get("emptied"), was = emptied.path(table);
      if (told.isArray() && told.get(2).asLong() >= was.path(2).asLong(-1)) emptied.set(table, told);
      segments.keepSchema(known);
      schema = known;
      return JSON.createObjectNode();
    } finally {
      reading.writeLock().unlock();
    }
  }

  private void read(JsonNode request, DataOutputStream out) throws IOException {
    ObjectNode answer = described(JSON.createObjectNode(), request, true);
    requireNotEmptied(request);
    TableMetadata table = tableOf(request);
    FoundRows found = new FoundRows(table, texts(request.get("key")), texts(request.get("values")));
    long after = request.get("after").asLong(), upto = request.get("upto").asLong(), end = segments.end();
    if (end < upto) {
      send(out, failed("lost", "ends at " + end + ", and went on to " + upto));
      return;
    }
    if (after < segments.gone()) {
      send(out, failed("lost", "does not go back to " + after + " any more, but to " + segments.gone()));
      return;
    }
    TableLog log = new TableLog(segments, table, found, out, request.path("sure").asBoolean());
    send(out, answer);
    try {
      for (Segments.Segment each : segments.look())
        if (each.id() >= Place.segment(after) && each.id() <= Place.segment(upto)) log.read(each, after, upto);
      if (after < segments.gone()) throw new IOException("its segments were deleted while they were read");
      found.send(out, true);
    } catch (FoundRows.Unknown e) {
      send(out, failed("schema", e.getMessage()));
    } catch (IOException | RuntimeException e) {
      e.printStackTrace();
      send(out, failed("failed", String.valueOf(e.getMessage())));
    }
  }

  private ObjectNode followers() throws IOException {
    ObjectNode answer = JSON.createObjectNode().put("end", segments.end()).put("used", segments.bytes()).put("limit", DatabaseDescriptor.getCDCTotalSpace());
    ObjectNode each = answer.putObject("followers");
    segments.followers().forEach(each::put);
    return answer;
  }

  private void tellIfFull(long used, long limit) {
    if (used < limit * NEARLY_FULL || System.nanoTime() - told < 60_000_000_000L && told != 0) return;
    told = System.nanoTime();
    System.err.println(folder + " holds " + (used >> 20) + " of " + (limit >> 20) + " MiB, and at that limit the node refuses writes; who has not read it: " + segments.followers());
  }

  private static List<String> texts(JsonNode array) {
    List<String> found = new ArrayList<>();
    array.forEach(each -> found.add(each.asText()));
    return found;
  }
}
