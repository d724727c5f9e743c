/** Where connected programs keep their data unless a flag or a setting says otherwise, in the home directory. */
export const connectedDirectory = '.stoa';
