/** Places in a node's commit log as whole numbers that grow along it: which segment, and how far in it.
 *
 *  The number of a segment is a time in milliseconds, and some; an entry takes at least 32 bytes, so that how many times
 *  32 bytes it ends behind tells it from the next one.  39 bits and 24 bits: segments of up to 512 MiB, until 2041. */
final class Place {
  static final int PLACE_BITS = 24, UNIT_BITS = 5;
  static final long FIRST = 1_704_067_200_000L, MOST = (1L << PLACE_BITS) - 1;

  static long of(long segment, long offset) {
    if (segment < FIRST || offset >> UNIT_BITS > MOST) throw new IllegalArgumentException("segment " + segment + " at " + offset + " is beyond what can be counted");
    return segment - FIRST << PLACE_BITS | offset >> UNIT_BITS;
  }

  static long segment(long place) { return (place >> PLACE_BITS) + FIRST; }

  static long endOf(long segment) { return segment - FIRST << PLACE_BITS | MOST; }

  private Place() {}
}
