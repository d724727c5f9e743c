/** The totals that `/stats` shows, kept as they change and not counted. */
import type { Room } from './model.js';

const topRoomsMax = 5;

export interface RankedRoom {
  id: string;
  name: string;
  messageCount: number;
  lastActiveAtMs: number;
}

/**
 * The busiest rooms after a post in `room`. Totals only grow and rooms do not go away, so a room can
 * enter the list by its own post alone: five entries are enough to keep it exact.
 */
export function rankRooms(top: readonly RankedRoom[], room: Room): RankedRoom[] {
  const { id, name, messageCount, lastActiveAtMs } = room;
  const others = top.filter((entry) => entry.id !== id);
  return [...others, { id, name, messageCount, lastActiveAtMs }].toSorted((a, b) => b.messageCount - a.messageCount || b.lastActiveAtMs - a.lastActiveAtMs).slice(0, topRoomsMax);
}

/** How long ago something happened, in words. */
export function agoInWords(atMs: number | null, nowMs: number): string {
  if (atMs === null) return 'never';
  const minutes = Math.floor(Math.max(0, nowMs - atMs) / 60_000);
  if (minutes < 1) return 'just now';
  if (minutes < 60) return counted(minutes, 'minute');
  const hours = Math.floor(minutes / 60);
  return hours < 24 ? counted(hours, 'hour') : counted(Math.floor(hours / 24), 'day');
}

function counted(count: number, unit: string): string {
  return `${count} ${unit}${count === 1 ? '' : 's'} ago`;
}
