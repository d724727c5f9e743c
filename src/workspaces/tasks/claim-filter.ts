/** Which tasks a claim takes, by their labels. */

export interface ClaimFilter {
  /** The task has all of them. */
  readonly labels: readonly string[];
  /** The task has none of them. */
  readonly without: readonly string[];
  /** All labels of the task are among them; null accepts any label. */
  readonly skills: readonly string[] | null;
}

export const anyTask: ClaimFilter = { labels: [], without: [], skills: null };

export function claimFilter(request: {
  labels?: readonly string[] | undefined;
  without_labels?: readonly string[] | undefined;
  skills?: readonly string[] | undefined;
}): ClaimFilter {
  return {
    labels: labelSet(request.labels ?? []),
    without: labelSet(request.without_labels ?? []),
    skills: request.skills === undefined ? null : labelSet(request.skills),
  };
}

/** Whether the claim takes a task with these labels. */
export function accepts({ labels, without, skills }: ClaimFilter, of: readonly string[]): boolean {
  return (
    labels.every((label) => of.includes(label)) &&
    !without.some((label) => of.includes(label)) &&
    (skills === null || of.every((label) => skills.includes(label)))
  );
}

/** Whether the claim takes any task. */
export function acceptsAll({ labels, without, skills }: ClaimFilter): boolean {
  return labels.length === 0 && without.length === 0 && skills === null;
}

/** Each label once, in one order, in one form of Unicode. */
export function labelSet(labels: readonly string[]): string[] {
  return [...new Set(labels.map((label) => label.normalize('NFC')))].toSorted();
}
