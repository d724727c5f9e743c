/** 1048576 as 1,048,576. `toLocaleString` would first load the data of languages: 9 ms of a start. */
export function groupedDigits(value: number | bigint): string {
  return String(value).replace(/\B(?<!\.\d*)(?=(\d{3})+(?:\.|$))/g, ',');
}
