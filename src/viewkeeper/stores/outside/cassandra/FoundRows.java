import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.RangeTombstone;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.marshal.CompositeType;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;

/** Rows of mutations of one table, column by column, until they are sent.
 *
 *  A frame is the length of a header (big-endian), the header (JSON), and buffers (little-endian, as many bytes each as
 *  `buffers` in the header says): of the rows where each ends in the log, their liveness, their deletion (int64, NEVER
 *  where there is none), and flags (int8); of each column of the key, then of each other one, where the bytes of each
 *  value begin (int32, one more than rows), and the bytes; of the others the cells' timestamps (int64, NEVER where there
 *  is no cell) and what each cell is (int8) before that. */
final class FoundRows {
  static final long NEVER = Long.MIN_VALUE;
  static final int EXPIRES = 1;
  static final byte TOMBSTONE = 1, VALUE = 2;
  private static final int ROWS_AT_ONCE = 50_000, BYTES_AT_ONCE = 8 << 20, RANGES_AT_ONCE = 1_000;
  private static final ObjectMapper JSON = new ObjectMapper();

  private final TableMetadata table;
  private final int clustered;
  private final int[] keyAt;
  private final Map<ByteBuffer, Integer> places = new HashMap<>();
  private final Bytes ends = new Bytes(), live = new Bytes(), deleted = new Bytes(), flags = new Bytes();
  private final Values[] keys, values;
  private final Bytes[] stamps, kinds;
  private final long[] rowStamps;
  private final Cell<?>[] rowCells;
  private ArrayNode ranges = JSON.createArrayNode(), bad = JSON.createArrayNode();
  private int count;

  /** `key` and `named` are names of columns, in the order in which they are sent. */
  FoundRows(TableMetadata table, List<String> key, List<String> named) {
    this.table = table;
    clustered = table.clusteringColumns().size();
    List<ColumnMetadata> parts = new ArrayList<>(table.partitionKeyColumns());
    parts.addAll(table.clusteringColumns());
    keyAt = key.stream().mapToInt(name -> place(parts, name)).toArray();
    for (int i = 0; i < named.size(); i++) {
      ColumnMetadata column = table.getColumn(ByteBufferUtil.bytes(named.get(i)));
      if (column == null || !column.isRegular() || !column.isSimple()) throw new Unknown("column " + named.get(i));
      places.put(column.name.bytes, i);
    }
    keys = new Values[key.size()];
    values = new Values[named.size()];
    stamps = new Bytes[named.size()];
    kinds = new Bytes[named.size()];
    for (int i = 0; i < keys.length; i++) keys[i] = new Values();
    for (int i = 0; i < values.length; i++) {
      values[i] = new Values();
      stamps[i] = new Bytes();
      kinds[i] = new Bytes();
    }
    rowStamps = new long[named.size()];
    rowCells = new Cell<?>[named.size()];
  }

  /** Something of the table that is not known here, or not any more. */
  static final class Unknown extends RuntimeException {
    Unknown(String what) { super(what); }
  }

  private static int place(List<ColumnMetadata> parts, String name) {
    for (int i = 0; i < parts.size(); i++) if (parts.get(i).name.toString().equals(name)) return i;
    throw new Unknown("key column " + name);
  }

  /** What an update says that begins behind `begin`, and ends at `end`.  Ranges are numbered from the end on, so that no
   *  two have one place: an entry with more of them than places is none. */
  void add(PartitionUpdate update, long begin, long end) {
    ByteBuffer key = update.partitionKey().getKey();
    ByteBuffer[] parts = table.partitionKeyColumns().size() == 1 ? new ByteBuffer[] {key} : ((CompositeType) table.partitionKeyType).split(key);
    ByteBuffer[] whole = Arrays.copyOf(parts, parts.length + clustered);
    DeletionTime gone = update.deletionInfo().getPartitionDeletion();
    if (!gone.isLive()) {
      if (clustered == 0) row(whole, end, NEVER, gone.markedForDeleteAt(), 0);
      else range(parts, end, gone.markedForDeleteAt(), null);
    }
    long place = end;
    for (Iterator<RangeTombstone> each = update.deletionInfo().rangeIterator(false); each.hasNext(); place--) {
      RangeTombstone range = each.next();
      if (place > begin) range(parts, place, range.deletionTime().markedForDeleteAt(), range);
      else unreadable(end, "it deletes too many ranges of rows in one step");
    }
    for (Row row : update) {
      for (int i = 0; i < clustered; i++) whole[parts.length + i] = row.clustering().bufferAt(i);
      row(whole, end, row);
    }
  }

  private void row(ByteBuffer[] key, long end, Row row) {
    LivenessInfo liveness = row.primaryKeyLivenessInfo();
    int flag = liveness.isExpiring() ? EXPIRES : 0;
    boolean any = !liveness.isEmpty() || !row.deletion().isLive();
    for (ColumnData data : row) {
      Integer place = places.get(data.column().name.bytes);
      if (place == null) continue;
      Cell<?> cell = (Cell<?>) data;
      if (cell.isExpiring()) flag = EXPIRES;
      rowStamps[place] = cell.timestamp();
      rowCells[place] = cell;
      any = true;
    }
    if (any) row(key, end, liveness.isEmpty() ? NEVER : liveness.timestamp(), row.deletion().isLive() ? NEVER : row.deletion().time().markedForDeleteAt(), flag);
  }

  private void row(ByteBuffer[] key, long end, long alive, long gone, int flag) {
    ends.putLong(end);
    live.putLong(alive);
    deleted.putLong(gone);
    flags.putByte((byte) flag);
    for (int i = 0; i < keys.length; i++) keys[i].put(key[keyAt[i]]);
    for (int i = 0; i < values.length; i++) {
      Cell<?> cell = rowCells[i];
      rowCells[i] = null;
      stamps[i].putLong(cell == null ? NEVER : rowStamps[i]);
      kinds[i].putByte(cell == null ? 0 : cell.isTombstone() ? TOMBSTONE : VALUE);
      values[i].put(cell == null || cell.isTombstone() ? null : cell.buffer());
    }
    count++;
  }

  /** A deletion of rows from one clustering to another, of all of a partition where no `range` is said. */
  private void range(ByteBuffer[] partition, long end, long stamp, RangeTombstone range) {
    ObjectNode made = ranges.addObject().put("end", end).put("stamp", stamp);
    ArrayNode key = made.putArray("partition");
    for (ByteBuffer each : partition) key.add(ByteBufferUtil.bytesToHex(each));
    bound(made, "from", range == null ? null : range.deletedSlice().start());
    bound(made, "to", range == null ? null : range.deletedSlice().end());
  }

  private static void bound(ObjectNode made, String name, ClusteringBound<?> bound) {
    ArrayNode values = made.putArray(name);
    for (int i = 0; bound != null && i < bound.size(); i++) values.add(ByteBufferUtil.bytesToHex(bound.bufferAt(i)));
    made.put(name + "_included", bound == null || bound.isInclusive());
  }

  /** An entry that nobody can read. */
  void unreadable(long end, String why) { bad.addObject().put("end", end).put("why", why); }

  boolean isFull() { return count >= ROWS_AT_ONCE || ends.size() + bytes() >= BYTES_AT_ONCE || ranges.size() >= RANGES_AT_ONCE; }

  private int bytes() {
    int found = 0;
    for (Values each : keys) found += each.bytes.size();
    for (Values each : values) found += each.bytes.size();
    return found;
  }

  /** Sends what there is; `last`: there is no more. */
  void send(DataOutputStream out, boolean last) throws IOException {
    List<Bytes> buffers = new ArrayList<>(List.of(ends, live, deleted, flags));
    for (Values each : keys) each.addTo(buffers);
    for (int i = 0; i < values.length; i++) {
      buffers.add(stamps[i]);
      buffers.add(kinds[i]);
      values[i].addTo(buffers);
    }
    ObjectNode header = JSON.createObjectNode().put("rows", count).put("last", last);
    header.set("ranges", ranges);
    header.set("bad", bad);
    ArrayNode sizes = header.putArray("buffers");
    for (Bytes each : buffers) sizes.add(each.size());
    byte[] head = JSON.writeValueAsBytes(header);
    out.writeInt(head.length);
    out.write(head);
    for (Bytes each : buffers) each.sendAndClear(out);
    for (Values each : keys) each.begin();
    for (Values each : values) each.begin();
    ranges = JSON.createArrayNode();
    bad = JSON.createArrayNode();
    count = 0;
  }

  /** Values one behind the other, and where each begins. */
  private static final class Values {
    final Bytes begins = new Bytes(), bytes = new Bytes();

    Values() { begin(); }

    void begin() { begins.putInt(0); }

    void put(ByteBuffer value) {
      if (value != null) bytes.put(value);
      begins.putInt(bytes.size());
    }

    void addTo(List<Bytes> buffers) {
      buffers.add(begins);
      buffers.add(bytes);
    }
  }

  /** Bytes that grow; numbers are little-endian, as those who take them in one piece have them. */
  private static final class Bytes {
    private byte[] held = new byte[256];
    private int size;

    int size() { return size; }

    private void need(int more) {
      if (size + more > held.length) held = Arrays.copyOf(held, Math.max(size + more, held.length * 2));
    }

    void putByte(byte value) {
      need(1);
      held[size++] = value;
    }

    void putInt(int value) {
      need(4);
      for (int i = 0; i < 4; i++) held[size++] = (byte) (value >>> 8 * i);
    }

    void putLong(long value) {
      need(8);
      for (int i = 0; i < 8; i++) held[size++] = (byte) (value >>> 8 * i);
    }

    void put(ByteBuffer value) {
      int length = value.remaining();
      need(length);
      value.duplicate().get(held, size, length);
      size += length;
    }

    void sendAndClear(DataOutputStream out) throws IOException {
      out.write(held, 0, size);
      size = 0;
    }
  }
}
