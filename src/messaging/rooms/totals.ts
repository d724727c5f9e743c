/** Values of `/stats`: the order of rooms, and the time since an event in words. */
import type { Room } from '../model.js';

export const topRoomsMax = 5;

/** The busiest room first. With equal counts the more recently active room comes first. */
export function byRank(a: Room, b: Room): number {
  return b.messageCount - a.messageCount || b.lastActiveAtMs - a.lastActiveAtMs;
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
