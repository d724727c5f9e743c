/** The keys of private rooms that a person has typed. They stay in the memory of this tab. */
import { Observable, useObservable } from '../../observable.js';

const keys = new Observable<ReadonlyMap<string, string>>(new Map());

export function useRoomKey(room: string): string | undefined {
  return useObservable(keys).get(room);
}

export function setRoomKey(room: string, key: string): void {
  keys.set(new Map([...keys.value, [room, key]]));
}
