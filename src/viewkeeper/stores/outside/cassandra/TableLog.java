import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.zip.CRC32;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.Mutation;
import org.apache.cassandra.db.commitlog.CommitLogDescriptor;
import org.apache.cassandra.db.commitlog.CommitLogReadHandler;
import org.apache.cassandra.db.commitlog.CommitLogSegmentReader;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.DeserializationHelper;
import org.apache.cassandra.exceptions.UnknownTableException;
import org.apache.cassandra.io.util.DataInputBuffer;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.io.util.FileDataInput;
import org.apache.cassandra.io.util.RandomAccessReader;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.FBUtilities;

/** Reads what segments hold of one table, or only looks where that ends.  Entries of other tables are not taken apart. */
final class TableLog implements CommitLogReadHandler {
  private static final int LEAST_ENTRY = 10;
  private final Segments segments;
  private final TableMetadata table;
  private final FoundRows found;
  private final DataOutputStream out;
  private final boolean isSure;
  private final byte[] id = new byte[16];
  private final CRC32 sum = new CRC32();
  private byte[] entry = new byte[4096];

  /** Where the last entry of the table ends that was met; 0: none was. */
  long last;

  /** `found` and `out` are null where nothing is to be found but the end.  `isSure`: the schema is the newest there is; what cannot be read by it never will be. */
  TableLog(Segments segments, TableMetadata table, FoundRows found, DataOutputStream out, boolean isSure) {
    this.segments = segments;
    this.table = table;
    this.found = found;
    this.out = out;
    this.isSure = isSure;
    ByteBuffer.wrap(id).putLong(table.id.asUUID().getMostSignificantBits()).putLong(table.id.asUUID().getLeastSignificantBits());
  }

  /** Finds all that ends behind `after` and not behind `upto` in a segment, and sends what does not fit. */
  void read(Segments.Segment segment, long after, long upto) throws IOException {
    try (RandomAccessReader file = RandomAccessReader.open(new File(segment.log().toString()))) {
      CommitLogDescriptor descriptor = CommitLogDescriptor.readHeader(file, DatabaseDescriptor.getEncryptionContext());
      if (descriptor == null) throw new IOException(segment.log() + " has no header");
      boolean isPlain = descriptor.compression == null && !descriptor.getEncryptionContext().isEnabled();
      Integer begin = isPlain ? segments.offset(after) : null;
      if (begin != null && Place.segment(after) == segment.id()) file.seek(begin);
      for (CommitLogSegmentReader.SyncSegment section : new CommitLogSegmentReader(this, descriptor, file, true) {}) {
        long end = Place.of(segment.id(), section.endPosition);
        if (end > after) section(section.input, segment.id(), section.endPosition, descriptor, after, upto);
        segments.remember(end, section.endPosition);
        if (end >= upto) return;
      }
    }
  }

  private void section(FileDataInput in, long segment, int end, CommitLogDescriptor descriptor, long after, long upto) throws IOException {
    while (end - in.getFilePointer() >= 4) {
      long begin = Place.of(segment, in.getFilePointer());
      int size = in.readInt();
      if (size == 0) return;
      sum.reset();
      FBUtilities.updateChecksumInt(sum, size);
      if (size < LEAST_ENTRY || sum.getValue() != (in.readInt() & 0xffffffffL)) throw damaged(segment, in.getFilePointer());
      if (size > entry.length) entry = new byte[size + size / 4];
      in.readFully(entry, 0, size);
      sum.update(entry, 0, size);
      if (sum.getValue() != (in.readInt() & 0xffffffffL)) throw damaged(segment, in.getFilePointer());
      long place = Place.of(segment, in.getFilePointer());
      if (place > upto) return;
      if (place <= after || !isOfTable(size)) continue;
      last = place;
      if (found == null) continue;
      mutation(size, begin, place, descriptor);
      if (found.isFull()) found.send(out, false);
    }
  }

  private static IOException damaged(long segment, long at) {
    return new IOException("the segment " + segment + " is damaged before byte " + at);
  }

  /** Whether the table's id is anywhere in the entry. */
  private boolean isOfTable(int size) {
    byte first = id[0];
    for (int at = 0; at <= size - id.length; at++) {
      if (entry[at] != first) continue;
      int same = 1;
      while (same < id.length && entry[at + same] == id[same]) same++;
      if (same == id.length) return true;
    }
    return false;
  }

  private void mutation(int size, long begin, long place, CommitLogDescriptor descriptor) throws IOException {
    Mutation mutation;
    try (DataInputBuffer in = new DataInputBuffer(entry, 0, size)) {
      mutation = Mutation.serializer.deserialize(in, descriptor.getMessagingVersion(), DeserializationHelper.Flag.LOCAL);
    } catch (UnknownTableException e) {
      if (!isSure) throw new FoundRows.Unknown("table " + e.id);
      found.unreadable(place, "it is one step with a change of a table that is gone, of which nothing is known: " + e.getMessage());
      return;
    } catch (IOException | RuntimeException e) {
      if (!isSure) throw new FoundRows.Unknown(e.toString());
      throw new IOException("an entry that ends at " + place + " cannot be read: " + e, e);
    }
    for (PartitionUpdate update : mutation.getPartitionUpdates())
      if (update.metadata().id.equals(table.id)) found.add(update, begin, place);
  }

  @Override public boolean shouldSkipSegmentOnError(CommitLogReadException e) { return false; }

  @Override public void handleUnrecoverableError(CommitLogReadException e) throws IOException { throw e; }

  @Override public void handleMutation(Mutation mutation, int size, int at, CommitLogDescriptor descriptor) {
    throw new IllegalStateException("nobody calls it: entries are taken apart here");
  }
}
