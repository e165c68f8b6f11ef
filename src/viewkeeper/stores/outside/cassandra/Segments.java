import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.cassandra.db.commitlog.CommitLogDescriptor;

/** The segments in the folder cdc_raw of a node, and what has to outlive this program, in `state`: how far each follower
 *  has read, which segments were there, and up to where the log is gone.
 *
 *  A node that starts again links segments anew that had been deleted: what is there says nothing, places do. */
final class Segments {
  /** `durable`: so many bytes of it are there for good; `complete`: no more will come. */
  record Segment(long id, Path log, int durable, boolean complete, long bytes) {
    long end() { return Place.of(id, durable); }
  }

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int KNOWN_MAX = 100_000;
  private final Path folder, state;
  private final ObjectNode kept;
  private final Map<String, Looked> looked = new TreeMap<>();
  private TreeMap<Long, Segment> seen = new TreeMap<>();

  /** How many bytes each place is, where that is known exactly. */
  private final Map<Long, Integer> exact = new LinkedHashMap<>() {
    @Override protected boolean removeEldestEntry(Map.Entry<Long, Integer> eldest) { return size() > KNOWN_MAX; }
  };

  Segments(Path folder, Path state) throws IOException {
    this.folder = folder;
    this.state = state;
    kept = Files.exists(state) ? (ObjectNode) JSON.readTree(state.toFile()) : JSON.createObjectNode();
    kept.withObject("/followers");
    kept.withObject("/seen").fields().forEachRemaining(each -> {
      long id = Long.parseLong(each.getKey());
      seen.put(id, new Segment(id, null, each.getValue().get(0).asInt(), each.getValue().get(1).asBoolean(), 0));
    });
    boolean isNew = !kept.has("gone");
    if (isNew) kept.put("gone", 0L);
    look();
    if (isNew && !seen.isEmpty()) {
      kept.put("gone", Place.of(seen.firstKey(), 0));
      save();
    }
  }

  /** Those that are there now, in their order. */
  synchronized List<Segment> look() throws IOException {
    TreeMap<Long, Segment> found = listed();
    boolean changed = false;
    for (Segment was : seen.values()) {
      if (found.containsKey(was.id)) continue;
      long end = was.complete ? was.end() : Place.endOf(was.id);
      if (end > gone()) kept.put("gone", end);
      changed = true;
    }
    for (Segment each : found.values()) {
      Segment was = seen.get(each.id);
      changed |= was == null || was.complete != each.complete;
      // One that was seen for the first time may have been read while its index was being written.
      if (was != null) remember(each.end(), each.durable);
    }
    seen = found;
    if (changed) save();
    return new ArrayList<>(found.values());
  }

  private TreeMap<Long, Segment> listed() throws IOException {
    TreeMap<Long, Segment> found = new TreeMap<>();
    try (DirectoryStream<Path> indexes = Files.newDirectoryStream(folder, "*_cdc.idx")) {
      for (Path index : indexes) {
        String name = index.getFileName().toString().replace("_cdc.idx", ".log");
        if (!CommitLogDescriptor.isValid(name)) continue;
        long id = CommitLogDescriptor.idFromFileName(name);
        Segment was = seen.get(id);
        if (was != null && was.complete && was.log != null && Files.exists(was.log)) {
          found.put(id, was);
          continue;
        }
        Path log = folder.resolve(name);
        try {
          List<String> lines = Files.readAllLines(index);
          long bytes = Files.size(log);
          // Written anew in place: for a moment it is empty, or cut off within the number.
          int durable = lines.isEmpty() ? 0 : Integer.parseInt(lines.get(0).trim());
          if (was != null && durable < was.durable) durable = was.durable;
          boolean complete = lines.size() > 1 && lines.get(1).equals("COMPLETED");
          if (durable > 0) found.put(id, new Segment(id, log, durable, complete, bytes));
        } catch (NoSuchFileException e) {
          continue;
        }
      }
    }
    return found;
  }

  /** Up to where the log is not there any more. */
  synchronized long gone() { return kept.get("gone").asLong(); }

  /** Where it ends now. */
  synchronized long end() throws IOException {
    long end = gone();
    for (Segment each : look()) end = Math.max(end, each.end());
    return end;
  }

  /** Where who comes now begins: a segment early, since what was written to the log a moment ago may not be in the table
   *  yet. */
  synchronized long start() throws IOException {
    List<Segment> there = look();
    if (there.isEmpty()) return gone();
    return Math.max(gone(), Place.of(there.get(Math.max(0, there.size() - 2)).id, 0));
  }

  synchronized Map<String, Long> followers() {
    Map<String, Long> found = new TreeMap<>();
    kept.get("followers").fields().forEachRemaining(each -> found.put(each.getKey(), each.getValue().path("place").asLong()));
    return found;
  }

  /** `follower` comes, to a table that was `emptied` then, if ever. */
  synchronized void begin(String follower, String table, JsonNode emptied) {
    ObjectNode known = kept.withObject("/followers").withObjectProperty(follower).put("table", table);
    known.set("emptied", emptied.isMissingNode() ? null : emptied);
  }

  /** When `table` had been emptied that `follower` came to; null where nobody knows. */
  synchronized JsonNode emptied(String follower, String table) {
    JsonNode known = kept.get("followers").path(follower), emptied = known.path("emptied");
    return emptied.isArray() && known.path("table").asText().equals(table) ? emptied : null;
  }

  /** `follower` will not read again what lies before `place`; segments that nobody will read again are deleted. */
  synchronized void passed(String follower, long place) throws IOException {
    ObjectNode known = kept.withObject("/followers").withObjectProperty(follower);
    if (known.path("place").asLong(-1) != place) {
      known.put("place", place);
      save();
    }
    deletePassed();
  }

  synchronized boolean drop(String follower) throws IOException {
    boolean was = ((ObjectNode) kept.get("followers")).remove(follower) != null;
    if (was) save();
    deletePassed();
    return was;
  }

  /** Who has read the last that there is of its table has passed all that was looked through for more. */
  private long passedBy(String follower, long place) {
    for (Map.Entry<String, Looked> each : looked.entrySet())
      if (follower.contains("/" + each.getKey() + "/") && place >= each.getValue().last) return Math.max(place, each.getValue().upto);
    return place;
  }

  /** Up to where the log was looked through for entries of a table (KEYSPACE.TABLE), and where the last one ends. */
  record Looked(long upto, long last) {}

  synchronized Looked looked(String table) { return looked.get(table); }

  synchronized void looked(String table, Looked to) throws IOException {
    Looked was = looked.put(table, to);
    if (was != null && Place.segment(was.upto) != Place.segment(to.upto)) deletePassed();
  }

  synchronized void deletePassed() throws IOException {
    Map<String, Long> followers = followers();
    if (followers.isEmpty()) return;
    long least = Long.MAX_VALUE;
    for (Map.Entry<String, Long> each : followers.entrySet()) least = Math.min(least, passedBy(each.getKey(), each.getValue()));
    for (Segment each : look()) {
      if (!each.complete || each.end() > least) continue;
      // The index last: without it a segment is none, and would stay for ever.
      Files.deleteIfExists(each.log);
      Files.deleteIfExists(folder.resolve(each.log.getFileName().toString().replace(".log", "_cdc.idx")));
    }
    look();
  }

  synchronized void remember(long place, int offset) { exact.put(place, offset); }

  /** Where the entry that ends at `place` ends, in bytes; null where nobody has seen it. */
  synchronized Integer offset(long place) { return exact.get(place); }

  synchronized long bytes() {
    return seen.values().stream().mapToLong(Segment::bytes).sum();
  }

  synchronized ObjectNode schema() { return (ObjectNode) kept.get("schema"); }

  synchronized void keepSchema(ObjectNode schema) throws IOException {
    kept.set("schema", schema);
    save();
  }

  private void save() throws IOException {
    ObjectNode segments = kept.putObject("seen");
    for (Segment each : seen.values()) segments.putArray("" + each.id).add(each.durable).add(each.complete);
    Path part = state.resolveSibling(state.getFileName() + ".part");
    try (FileOutputStream out = new FileOutputStream(part.toFile())) {
      out.write(JSON.writeValueAsBytes(kept));
      out.getFD().sync();
    }
    Files.move(part, state, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
  }
}
