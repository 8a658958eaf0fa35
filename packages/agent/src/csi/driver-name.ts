/** The name of the CSI driver: in the volumes of pods, of the CSIDriver object, at kubelet. At most 63 characters. */
export const DRIVER_NAME = 'csi.livery.dev'
