/** What volumes of pods name as their driver, the CSIDriver object is called, and kubelet registers. At most 63 characters. */
export const DRIVER_NAME = 'csi.livery.dev'
